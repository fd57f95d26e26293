package storetest

import (
	"time"

	"github.com/headgate/headgate"
)

func ttlChecks() []check {
	return []check{
		{name: "ttl", rule: "every key on a server has a TTL from its first write on", perAlgorithm: checkTTLSet},
		{name: "ttl restored", rule: "the next write sets a missing TTL again", perAlgorithm: checkTTLRestored},
		{name: "ttl short", rule: "a TTL is never rounded down to zero", perAlgorithm: checkShortTTL},
		{name: "ttl duration", rule: "the TTL of a key covers its reset_after and is not much longer", perAlgorithm: checkTTLDuration},
		{name: "nothing stored", rule: "operations that spend nothing store no key", perAlgorithm: checkNothingStored},
	}
}

// ttls returns the keys on the server with their TTLs, or nil without a server.
func (ts *tester) ttls() map[string]time.Duration {
	if ts.options.TTLs == nil {
		return nil
	}
	ttls, err := ts.options.TTLs()
	ts.mustf(err, "list the keys on the server")
	return ttls
}

// mustAllHaveTTL requires a TTL for every key on the server.
func (ts *tester) mustAllHaveTTL(when string) {
	for key, ttl := range ts.ttls() {
		if ttl < 0 {
			ts.failf("%s: %s has no TTL", when, truncate(key))
		}
	}
}

// newKeys returns the keys that are not in before.
func (ts *tester) newKeys(before map[string]time.Duration) map[string]time.Duration {
	ttls := ts.ttls()
	for key := range before {
		delete(ttls, key)
	}
	return ttls
}

// eachVerb executes each operation at the store's clock and at an instant. It calls
// done with the name of the operation after each.
func (ts *tester) eachVerb(a headgate.Algorithm, done func(verb string)) {
	l := ts.limiter(a, "10/1h")
	for _, at := range []headgate.Instant{headgate.StoreClock, start} {
		key := "key"
		if at != headgate.StoreClock {
			key = "key at an instant"
		}
		ts.mustAllow(l, at, key, 8)
		done("a take")
		ts.take(l, at, key, 5)
		done("a denial")
		ts.peek(l, at, key, 1)
		done("a peek")
		ts.refund(l, at, key, 3)
		done("a refund")
		ts.takeAll(at, headgate.Check{Limiter: l, Key: key, Cost: 1}, headgate.Check{Limiter: l, Key: key + " 2", Cost: 1})
		done("a take with two limits")
		ts.takeAll(at, headgate.Check{Limiter: l, Key: key, Cost: 9}, headgate.Check{Limiter: l, Key: key + " 2", Cost: 1})
		done("a denial with two limits")
		if a.CanReserve() {
			r := ts.reserve(l, at, 6, time.Hour)
			done("a reservation")
			ts.cancel(r, at)
			done("its cancellation")
		}
		ts.reset(l, at, key)
		done("a reset")
	}
}

// checkTTLSet covers T4.
func checkTTLSet(ts *tester, a headgate.Algorithm) {
	before := ts.ttls()
	if before == nil {
		return
	}
	ts.eachVerb(a, func(verb string) { ts.mustAllHaveTTL("after " + verb) })
	if len(ts.newKeys(before)) == 0 {
		ts.failf("%s: TTLs lists no new key after takes", a)
	}
}

// checkTTLRestored removes the TTL of every key in front of a write to it: T4.
func checkTTLRestored(ts *tester, a headgate.Algorithm) {
	if ts.options.RemoveTTL == nil {
		return
	}
	l := ts.limiter(a, "10/1h")
	writes := []struct {
		verb string
		do   func(at headgate.Instant)
	}{
		{"a take", func(at headgate.Instant) { ts.mustAllow(l, at, "key", 1) }},
		{"a refund", func(at headgate.Instant) { ts.refund(l, at, "key", 1) }},
		{"a take with two limits", func(at headgate.Instant) {
			ts.takeAll(at, headgate.Check{Limiter: l, Key: "key", Cost: 1}, headgate.Check{Limiter: l, Key: "other", Cost: 1})
		}},
		{"a reset", func(at headgate.Instant) { ts.reset(l, at, "key"); ts.reset(l, at, "other") }},
	}
	for _, at := range []headgate.Instant{headgate.StoreClock, start} {
		before := ts.ttls()
		ts.mustAllow(l, at, "key", 3)
		for _, w := range writes {
			for key := range ts.newKeys(before) {
				ts.mustf(ts.options.RemoveTTL(key), "remove the TTL of %s", truncate(key))
			}
			w.do(at)
			ts.mustAllHaveTTL("its TTL was removed; after " + w.verb)
		}
	}
}

// checkShortTTL uses windows close to the units in which servers count TTLs: T5.
func checkShortTTL(ts *tester, a headgate.Algorithm) {
	for _, limit := range []string{"1/1ms", "1000000/1ms", "1/999ms", "1/1s", "1/1001ms"} {
		l := ts.limiter(a, limit)
		for range 3 {
			ts.take(l, headgate.StoreClock, "key", 1)
			ts.mustAllHaveTTL("after a take under " + limit)
			ts.take(l, start, "key at an instant", 1)
			ts.mustAllHaveTTL("after a take under " + limit + " at an instant")
		}
	}
}

// checkTTLDuration compares a key's TTL with its reset_after: T6. The upper bound is a
// choice of this suite: twice the sum of reset_after and the period, plus an hour.
func checkTTLDuration(ts *tester, a headgate.Algorithm) {
	for _, limit := range []string{"10/1s", "3/1m", "10/24h", "7/366d"} {
		before := ts.ttls()
		if before == nil {
			return
		}
		l := ts.limiter(a, limit)
		begin := time.Now()
		d := ts.mustAllow(l, headgate.StoreClock, "key", 3)
		ttls := ts.newKeys(before)
		took := time.Since(begin)
		for key, ttl := range ttls {
			if ttl+took < d.ResetAfter {
				ts.failf("%s: reset_after=%v; the TTL of %s is %v, so units that still count are forgotten", describe(l), d.ResetAfter, truncate(key), ttl)
			}
			if limit := 2*(d.ResetAfter+l.Policy().Limits[0].Period) + time.Hour; ttl > limit {
				ts.failf("%s: reset_after=%v; the TTL of %s is %v want at most %v", describe(l), d.ResetAfter, truncate(key), ttl, limit)
			}
		}
		if len(ttls) == 0 && took < d.ResetAfter {
			ts.failf("%s: TTLs lists no key after a take with reset_after=%v", describe(l), d.ResetAfter)
		}
	}
}

// checkNothingStored checks that a key that was only peeked at is not stored: T13.
func checkNothingStored(ts *tester, a headgate.Algorithm) {
	before := ts.ttls()
	if before == nil {
		return
	}
	l := ts.limiter(a, "10/1h")
	for _, at := range []headgate.Instant{headgate.StoreClock, start} {
		ts.peek(l, at, "peeked", 0)
		ts.peek(l, at, "peeked", 5)
		ts.take(l, at, "peeked", 0)
		ts.take(l, at, "peeked", 11)
		ts.refund(l, at, "peeked", 5)
		ts.peekAll(at, headgate.Check{Limiter: l, Key: "peeked", Cost: 1}, headgate.Check{Limiter: l, Key: "peeked too", Cost: 1})
	}
	for key := range ts.newKeys(before) {
		ts.failf("%s: after peeks, a cost of 0, a cost above the limit and a refund of units that were not spent: %s is stored", describe(l), truncate(key))
	}
}
