package storetest

import (
	"time"

	"github.com/headgate/headgate"
)

func keptChecks() []check {
	return []check{
		{name: "lives", rule: "whatever is left on a server has a life, from its first write on", each: everyVerbGivesLife},
		{name: "lost lives", rule: "a life that was lost is given again by the next write", each: lostLifeIsGivenAgain},
		{name: "short lives", rule: "a life is never rounded down to nothing", each: shortLives},
		{name: "long enough", rule: "a key lives as long as it means something, and not much longer", each: livesAsLongAsItMeans},
		{name: "nothing kept", rule: "who only asks leaves nothing behind", each: asksLeaveNothing},
	}
}

// lives is what the server keeps; nil without one.
func (j *judge) lives() map[string]time.Duration {
	if j.options.TTLs == nil {
		return nil
	}
	lives, err := j.options.TTLs()
	j.mustf(err, "list what the store has left on its server")
	return lives
}

// mustAllDie wants a life for every key on the server.
func (j *judge) mustAllDie(when string) {
	for key, life := range j.lives() {
		if life < 0 {
			j.failf("%s: %s is kept for ever", when, clip(key))
		}
	}
}

// fresh are the keys that were not there before.
func (j *judge) fresh(before map[string]time.Duration) map[string]time.Duration {
	lives := j.lives()
	for key := range before {
		delete(lives, key)
	}
	return lives
}

// verbs does each verb in turn, at the store's clock and at an instant, and says after each what it was.
func (j *judge) verbs(a headgate.Algorithm, done func(verb string)) {
	l := j.limiter(a, "10/1h")
	for _, at := range []headgate.Instant{headgate.StoreClock, start} {
		key := "key"
		if at != headgate.StoreClock {
			key = "key at an instant"
		}
		j.mustAllow(l, at, key, 8)
		done("a take")
		j.take(l, at, key, 5)
		done("a denial")
		j.peek(l, at, key, 1)
		done("a peek")
		j.refund(l, at, key, 3)
		done("a refund")
		j.takeAll(at, headgate.Check{Limiter: l, Key: key, Cost: 1}, headgate.Check{Limiter: l, Key: key + " 2", Cost: 1})
		done("a take of several")
		j.takeAll(at, headgate.Check{Limiter: l, Key: key, Cost: 9}, headgate.Check{Limiter: l, Key: key + " 2", Cost: 1})
		done("a denial of several")
		if a.CanReserve() {
			r := j.reserve(l, at, 6, time.Hour)
			done("a reservation")
			j.cancel(r, at)
			done("its cancellation")
		}
		j.reset(l, at, key)
		done("a reset")
	}
}

// everyVerbGivesLife: T4.
func everyVerbGivesLife(j *judge, a headgate.Algorithm) {
	before := j.lives()
	if before == nil {
		return
	}
	j.verbs(a, func(verb string) { j.mustAllDie("after " + verb) })
	if len(j.fresh(before)) == 0 {
		j.failf("%s: after 2 charged keys: Lives lists no new key", a)
	}
}

// lostLifeIsGivenAgain takes the life of every key before a write to it: T4.
func lostLifeIsGivenAgain(j *judge, a headgate.Algorithm) {
	if j.options.RemoveTTL == nil {
		return
	}
	l := j.limiter(a, "10/1h")
	writes := []struct {
		verb string
		do   func(at headgate.Instant)
	}{
		{"a take", func(at headgate.Instant) { j.mustAllow(l, at, "key", 1) }},
		{"a refund", func(at headgate.Instant) { j.refund(l, at, "key", 1) }},
		{"a take of several", func(at headgate.Instant) {
			j.takeAll(at, headgate.Check{Limiter: l, Key: "key", Cost: 1}, headgate.Check{Limiter: l, Key: "other", Cost: 1})
		}},
		{"a reset", func(at headgate.Instant) { j.reset(l, at, "key"); j.reset(l, at, "other") }},
	}
	for _, at := range []headgate.Instant{headgate.StoreClock, start} {
		before := j.lives()
		j.mustAllow(l, at, "key", 3)
		for _, w := range writes {
			for key := range j.fresh(before) {
				j.mustf(j.options.RemoveTTL(key), "take the life of %s", clip(key))
			}
			w.do(at)
			j.mustAllDie("its life was lost; after " + w.verb)
		}
	}
}

// shortLives uses windows beside the units in which servers count lives: T5.
func shortLives(j *judge, a headgate.Algorithm) {
	for _, limit := range []string{"1/1ms", "1000000/1ms", "1/999ms", "1/1s", "1/1001ms"} {
		l := j.limiter(a, limit)
		for range 3 {
			j.take(l, headgate.StoreClock, "key", 1)
			j.mustAllDie("after a take under " + limit)
			j.take(l, start, "key at an instant", 1)
			j.mustAllDie("after a take under " + limit + " at an instant")
		}
	}
}

// livesAsLongAsItMeans holds a key's life against its reset_after: T6. What is too much is a matter of opinion: here, more than
// an hour beyond two periods and twice the time until the reset.
func livesAsLongAsItMeans(j *judge, a headgate.Algorithm) {
	for _, limit := range []string{"10/1s", "3/1m", "10/24h", "7/366d"} {
		before := j.lives()
		if before == nil {
			return
		}
		l := j.limiter(a, limit)
		began := time.Now()
		d := j.mustAllow(l, headgate.StoreClock, "key", 3)
		lives := j.fresh(before)
		took := time.Since(began)
		for key, life := range lives {
			if life+took < d.ResetAfter {
				j.failf("%s: reset_after=%v; %s lives for %v and so forgets what is still owed", describe(l), d.ResetAfter, clip(key), life)
			}
			if most := 2*(d.ResetAfter+l.Policy().Limits[0].Period) + time.Hour; life > most {
				j.failf("%s: reset_after=%v; %s lives for %v want at most %v", describe(l), d.ResetAfter, clip(key), life, most)
			}
		}
		if len(lives) == 0 && took < d.ResetAfter {
			j.failf("%s: Lives lists no key after a take with reset_after=%v", describe(l), d.ResetAfter)
		}
	}
}

// asksLeaveNothing: a key that was only asked for is none: T13.
func asksLeaveNothing(j *judge, a headgate.Algorithm) {
	before := j.lives()
	if before == nil {
		return
	}
	l := j.limiter(a, "10/1h")
	for _, at := range []headgate.Instant{headgate.StoreClock, start} {
		j.peek(l, at, "asked", 0)
		j.peek(l, at, "asked", 5)
		j.take(l, at, "asked", 0)
		j.take(l, at, "asked", 11)
		j.refund(l, at, "asked", 5)
		j.peekAll(at, headgate.Check{Limiter: l, Key: "asked", Cost: 1}, headgate.Check{Limiter: l, Key: "asked too", Cost: 1})
	}
	for key := range j.fresh(before) {
		j.failf("%s: after peeks, a cost of 0, a cost above the limit and a refund of what was never spent: %s is kept", describe(l), clip(key))
	}
}
