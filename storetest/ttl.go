package storetest

import (
	"time"

	"github.com/headgate/headgate"
)

func ttlChecks() []check {
	return []check{
		{name: "ttl set", rule: "every key on a server has a TTL from its first write on", perAlgorithm: checkTTLSet},
		{name: "ttl restored", rule: "the next write sets a missing TTL again", perAlgorithm: checkTTLRestored},
		{name: "ttl not rounded to zero", rule: "a TTL is never rounded down to zero", perAlgorithm: checkShortTTL},
		{name: "ttl duration", rule: "the TTL of a key covers its reset_after and is not much longer", perAlgorithm: checkTTLDuration},
		{name: "nothing stored", rule: "operations that spend nothing store no key", perAlgorithm: checkNothingStored},
	}
}

// ttls returns the keys on the server with their TTLs, or nil if Options.TTLs is nil.
func (ts *tester) ttls() map[string]time.Duration {
	if ts.options.TTLs == nil {
		return nil
	}
	ttls, err := ts.options.TTLs()
	ts.mustf(err, "list the keys on the server")
	return ttls
}

// mustAllHaveTTL requires that every key on the server has a TTL. when describes the
// situation in the failure message.
func (ts *tester) mustAllHaveTTL(when string) {
	for key, ttl := range ts.ttls() {
		if ttl < 0 {
			ts.failf("%s: %s has no TTL", when, truncate(key))
		}
	}
}

// newKeys returns the keys on the server that are not in before, with their TTLs.
func (ts *tester) newKeys(before map[string]time.Duration) map[string]time.Duration {
	ttls := ts.ttls()
	for key := range before {
		delete(ttls, key)
	}
	return ttls
}

// eachVerb executes every kind of operation, once at the store's clock and once at a
// given instant. After each operation it calls done with the name of the operation.
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

// checkTTLSet requires that every key has a TTL after every kind of operation:
// guarantee T4 in docs/internals/guarantees.md.
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

// checkTTLRestored removes the TTLs of all keys before each write, and requires that
// the write sets them again: guarantee T4 in docs/internals/guarantees.md.
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

// checkShortTTL uses periods close to 1 ms and 1 s, the units in which servers count
// TTLs: guarantee T5 in docs/internals/guarantees.md.
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

// checkTTLDuration requires that the TTL of a key is at least its reset_after:
// guarantee T6 in docs/internals/guarantees.md. It also requires an upper bound, which
// this suite has chosen: twice the sum of reset_after and the period, plus an hour.
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

// checkNothingStored requires that a key of which nothing was spent is not stored:
// guarantee T13 in docs/internals/guarantees.md.
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
