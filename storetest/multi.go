package storetest

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

func severalChecks() []check {
	return []check{
		{name: "all or none", rule: "several limits: all are admitted or nothing is spent", each: allOrNone},
		{name: "same key twice", rule: "several limits: a key that is charged twice pays twice", each: sameKeyTwice},
		{name: "several answer", rule: "several limits: the answer is the longest wait of those that denied and names each of them", judge: severalAnswer},
		{name: "several at once", rule: "several limits: concurrent requests spend from all keys or from none", each: severalAtOnce},
		{name: "policy of several", rule: "a policy with several limits is charged, refunded and reset as one", each: policyOfSeveral},
	}
}

func allOrNone(j *judge, a headgate.Algorithm) {
	wide, narrow := j.limiter(a, "10/1m"), j.limiter(a, "3/1m")
	j.mustAllow(wide, start, "key", 1)
	j.mustAllow(narrow, start, "key", 2)
	before := j.look(wide, start, "key")
	for _, charges := range [][]headgate.Check{
		{{Limiter: wide, Key: "key", Cost: 2}, {Limiter: narrow, Key: "key", Cost: 2}},
		{{Limiter: narrow, Key: "key", Cost: 2}, {Limiter: wide, Key: "key", Cost: 2}},
		{{Limiter: wide, Key: "key", Cost: 2}, {Limiter: narrow, Key: "key", Cost: 4}},
	} {
		if d := j.takeAll(start, charges...); d.Allowed {
			j.failf("%s and %s with 1 left: got %s want denied", describe(wide), describe(narrow), show(d))
		}
		j.mustLookAs(j.look(wide, start, "key"), before, wide, "the limit that admitted, after the other denied")
		j.mustHold(narrow, start, "key", 1, "the limit that denied")
	}
	fits := []headgate.Check{{Limiter: wide, Key: "key", Cost: 2}, {Limiter: narrow, Key: "key", Cost: 1}}
	if d := j.peekAll(start, fits...); !d.Allowed {
		j.failf("peek at charges that fit: got %s want allowed", show(d))
	}
	j.mustLookAs(j.look(wide, start, "key"), before, wide, "after a peek at several charges")
	if d := j.takeAll(start, fits...); !d.Allowed {
		j.failf("charges that fit: got %s want allowed", show(d))
	}
	j.mustHold(wide, start, "key", 7, "after both admitted")
	j.mustHold(narrow, start, "key", 0, "after both admitted")
}

func sameKeyTwice(j *judge, a headgate.Algorithm) {
	l := j.limiter(a, "10/1m")
	twice := func(first, second int64) []headgate.Check {
		return []headgate.Check{{Limiter: l, Key: "key", Cost: first}, {Limiter: l, Key: "other", Cost: 1}, {Limiter: l, Key: "key", Cost: second}}
	}
	if d := j.takeAll(start, twice(3, 4)...); !d.Allowed || d.Remaining != 3 {
		j.failf("%s: one key charged 3 and 4: got %s want allowed with 3 remaining", describe(l), show(d))
	}
	j.mustHold(l, start, "key", 3, "charged 3 and 4 in one request")
	d := j.takeAll(start, twice(2, 2)...)
	if d.Allowed || d.RetryAfter == 0 {
		j.failf("%s with 3 left, charged 2 and 2: got %s want denied with a wait", describe(l), show(d))
	}
	j.mustHold(l, start, "key", 3, "after a denial")
	j.mustHold(l, start, "other", 9, "after a denial")
	j.mustBeHonest(start, d, twice(2, 2))
	j.mustBeHonest(start, j.peekAll(start, twice(4, 5)...), twice(4, 5))
	if d := j.takeAll(start, twice(6, 5)...); d.Allowed || !d.Never || d.RetryAfter != 0 {
		j.failf("%s: one key charged 6 and 5: got %s want never: it holds 10", describe(l), show(d))
	}
}

// mustBeHonest wants the charges admitted after the wait that d says, and not 1 µs earlier. It looks later first: a store that
// lets a look at a later instant change its state is caught.
func (j *judge) mustBeHonest(at headgate.Instant, d headgate.Decision, charges []headgate.Check) {
	then := at + headgate.Instant(d.RetryAfter.Microseconds())
	if d.Allowed || d.Never || then > headgate.MaxInstant {
		return
	}
	if later := j.peekAll(then, charges...); !later.Allowed {
		j.failf("retry_after=%d µs: asked again then: got %s want allowed", d.RetryAfter.Microseconds(), show(later))
	}
	if sooner := j.peekAll(then-1, charges...); sooner.Allowed {
		j.failf("retry_after=%d µs: asked 1 µs earlier: got %s want denied", d.RetryAfter.Microseconds(), show(sooner))
	}
}

func severalAnswer(j *judge) {
	for _, a := range j.options.algorithms() {
		p := headgate.Policy{Name: j.name(), Algorithm: a, Limits: []headgate.Limit{
			headgate.MustParseLimit("2/10s"), headgate.MustParseLimit("2/1m"), headgate.MustParseLimit("50/1m"),
		}}
		l := j.limiterFor(p)
		j.mustAllow(l, start, "key", 2)
		d := j.take(l, start, "key", 1)
		want := []string{p.Name + ":2/10s", p.Name + ":2/m"}
		if d.Allowed || d.Remaining != 0 || d.Limit != 2 || !slices.Equal(d.DeniedBy, want) {
			j.failf("%s: got %s want denied by %q, limit 2, remaining 0", describe(l), show(d), want)
		}
		j.mustBeHonest(start, d, []headgate.Check{{Limiter: l, Key: "key", Cost: 1}})
		if d := j.take(l, start, "key", 3); !d.Never || d.RetryAfter != 0 {
			j.failf("%s: cost 3: got %s want never", describe(l), show(d))
		}
	}
}

// severalAtOnce charges two keys together from many goroutines, half of them in the other order, so that a store that locks
// one key after the other must not lock itself out. Once the one key is the narrower, once they are equally narrow.
func severalAtOnce(j *judge, a headgate.Algorithm) {
	const limit, narrow = 100, 70
	for _, wide := range []int64{limit, narrow} {
		l := j.limiter(a, "100/1m")
		j.take(l, start, "left", limit-wide)
		j.mustAllow(l, start, "right", limit-narrow)
		got := j.chargeAtOnce([]headgate.Check{{Limiter: l, Key: "left", Cost: 1}, {Limiter: l, Key: "right", Cost: 1}})
		if got > narrow || got < narrow && !j.options.NonAtomic {
			j.failf("%s, two keys charged at once, %d and %d left: got %d admitted want %d", describe(l), wide, narrow, got, narrow)
		}
		for key, before := range map[string]int64{"left": wide, "right": narrow} {
			left := j.peek(l, start, key, 0).Remaining
			if want := before - got; left > want || left < want && !j.options.NonAtomic {
				j.failf("%s: %d of %d were admitted: got %d remaining want %d", describe(l), got, before, left, want)
			}
		}
	}
}

// chargeAtOnce says how many of the charges, far more than fit, were admitted.
func (j *judge) chargeAtOnce(charges []headgate.Check) int64 {
	const callers, rounds = 16, 20
	reversed := []headgate.Check{charges[1], charges[0]}
	var admitted atomic.Int64
	var errs firstError
	var all sync.WaitGroup
	for g := range callers {
		mine := charges
		if g%2 == 1 {
			mine = reversed
		}
		all.Go(func() {
			for range rounds {
				d, err := headgate.AllowAllAt(background, start.Time(), mine...)
				errs.note(err)
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	j.mustf(errs.err, "charge two keys at once")
	return admitted.Load()
}

func policyOfSeveral(j *judge, a headgate.Algorithm) {
	p := headgate.Policy{Name: j.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit("3/10s"), headgate.MustParseLimit("5/1m")}}
	l := j.limiterFor(p)
	j.mustAllow(l, start, "key", 3)
	j.mustDeny(l, start, "key", 1)
	j.mustHold(l, start, "key", 0, "all of the narrower limit is spent")
	if d := j.refund(l, start, "key", 2); d.Remaining != 2 || d.Limit != 3 {
		j.failf("%s: refund 2 of 3: got %s want 2 remaining of 3", describe(l), show(d))
	}
	j.mustAllow(l, start, "key", 2)
	if d := j.reset(l, start, "key"); d.Remaining != 3 || d.ResetAfter != 0 {
		j.failf("%s: reset: got %s want 3 remaining", describe(l), show(d))
	}
	j.mustAllow(l, start, "key", 3)
	if d := j.peek(l, start+20_000_000, "key", 0); d.Remaining > 3 {
		j.failf("%s: 20 s later: got %s want at most 3 remaining", describe(l), show(d))
	}
}
