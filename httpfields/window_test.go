package httpfields_test

import (
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/root"
)

func isWindow(l httpfields.Limit) bool {
	return l.Algorithm.Windowed()
}

// window returns the expected t of the i-th limit, calculated independently: with exact
// fractions and peeks of the store.
func (s *state) window(tb testing.TB, i int) int64 {
	tb.Helper()
	l, d := s.limits[i], s.decisions[i]
	switch {
	case isWindow(l) && d.RetryAfter > 0:
		return roundedUp(min(d.RetryAfter, d.ResetAfter))
	case isWindow(l) && d.ResetAfter > 0:
		return roundedUp(d.ResetAfter)
	case isWindow(l):
		return roundedUp(l.Limit.Period)
	case d.Remaining > 0:
		exact := big.NewRat(int64(l.Limit.Period/time.Microsecond), 1e6)
		exact.Mul(exact, big.NewRat(d.Remaining, l.Limit.Rate))
		whole, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
		if rest.Sign() > 0 {
			whole.Add(whole, big.NewInt(1))
		}
		return whole.Int64()
	default:
		return roundedUp(s.peekOne(tb, i, s.now, 1).RetryAfter)
	}
}

// mayBeLate reports whether a t that is one second longer is correct, too. Decisions
// have waits in whole microseconds: for a cost other than 1, the wait for a unit may be
// a microsecond too long.
func (s *state) mayBeLate(tb testing.TB, i int) bool {
	tb.Helper()
	l, d := s.limits[i], s.decisions[i]
	return !isWindow(l) && d.Remaining == 0 && (d.Allowed || s.cost != 1) && s.peekOne(tb, i, s.now, 1).RetryAfter%time.Second == 0
}

// writtenWindow returns the t in the fields of a state with one limit.
func (s *state) writtenWindow(tb testing.TB, w *httpfields.Writer) int64 {
	tb.Helper()
	h := write(w, w.Set(s.limits...), s.decisions, s.now)
	text := h.Get("RateLimit")
	text = text[strings.LastIndex(text, ";t=")+len(";t="):]
	t, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		tb.Fatalf("%s%s", s, lines(h))
	}
	return t
}

func afterSeconds(t headgate.Instant, seconds int64) headgate.Instant {
	return t + headgate.Instant(seconds*1e6)
}

// T25. A request with the same cost is allowed after Retry-After, and at
// X-RateLimit-Reset.
func TestAllowedAfterRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWriter(t, withDialects(httpfields.IETF, httpfields.GitHub))
	var denied, exact atomic.Int64
	eachState(t, caseCount(20_000), func(_ *rand.Rand, s *state) {
		all := root.Combine(s.decisions)
		if all.Allowed || all.Never {
			return
		}
		h := write(w, w.Set(s.limits...), s.decisions, s.now)
		wait, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
		if err != nil || wait < 1 {
			t.Fatalf("%s%s", s, lines(h))
		}
		reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
		if err != nil || reset < int64(s.now)/1e6 {
			t.Fatalf("%s%s", s, lines(h))
		}
		denied.Add(1)
		for _, then := range []headgate.Instant{afterSeconds(s.now, wait), headgate.Instant(reset * 1e6)} {
			if d := root.Combine(s.decide(t, then, s.cost, true)); !d.Allowed {
				t.Fatalf("%s%sdenied again at %d: %+v", s, lines(h), then, d)
			}
		}
		if d := root.Combine(s.decide(t, afterSeconds(s.now, wait-1), s.cost, true)); !d.Allowed {
			exact.Add(1)
		}
	})
	if n := denied.Load(); n < int64(caseCount(20_000))/20 || exact.Load() != n {
		t.Errorf("%d states were denied; in %d of them one second less is too short", n, exact.Load())
	}
}

// Exactly r units remain. If r is 0, a unit is available after t.
func TestRemainingIsExact(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	var empty atomic.Int64
	eachState(t, caseCount(20_000), func(_ *rand.Rand, s *state) {
		if len(s.limits) > 1 {
			return
		}
		written, r := s.writtenWindow(t, w), s.decisions[0].Remaining
		if !s.peekOne(t, 0, s.now, r).Allowed || s.peekOne(t, 0, s.now, r+1).Allowed {
			t.Fatalf("%sr=%d is not the remaining number of units", s, r)
		}
		if r > 0 {
			return
		}
		empty.Add(1)
		if !s.peekOne(t, 0, afterSeconds(s.now, written), 1).Allowed {
			t.Fatalf("%sr=0;t=%d, but no unit is available after t", s, written)
		}
	})
	if n := empty.Load(); n < int64(caseCount(20_000))/20 {
		t.Errorf("only %d states were empty", n)
	}
}

// No more than r units can be spent within t, except in the last second, by which t is
// rounded up. The test covers fixed windows in use, limits without units that denied one
// unit, and sliding logs that denied one unit more than remains.
func TestNoMoreThanRemainingWithinWindow(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	var fixed, denied atomic.Int64
	eachState(t, caseCount(20_000), func(_ *rand.Rand, s *state) {
		l, d := s.limits[0], s.decisions[0]
		inUse := l.Algorithm == headgate.FixedWindow && d.ResetAfter > 0
		oneMore := d.RetryAfter > 0 && s.cost == d.Remaining+1 && (l.Algorithm == headgate.SlidingLog || s.cost == 1)
		if len(s.limits) > 1 || !inUse && !oneMore {
			return
		}
		if inUse {
			fixed.Add(1)
		} else {
			denied.Add(1)
		}
		end := afterSeconds(s.now, s.writtenWindow(t, w)-1)
		if d := s.decide(t, s.now, d.Remaining, false)[0]; !d.Allowed {
			t.Fatalf("%sthe remaining units are denied: %+v", s, d)
		}
		if s.peekOne(t, 0, end, 1).Allowed {
			t.Fatalf("%s%d units are spent, but one more is allowed at %d", s, d.Remaining, end)
		}
	})
	if minCount := int64(caseCount(20_000)) / 500; fixed.Load() < minCount || denied.Load() < minCount {
		t.Errorf("only %d fixed windows and %d denials", fixed.Load(), denied.Load())
	}
}

// For buckets r/t is never above the sustained rate. A client that spends r units every
// t seconds is never denied.
func TestBucketPaceIsSustainable(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	eachState(t, caseCount(20_000), func(_ *rand.Rand, s *state) {
		l, r := s.limits[0], s.decisions[0].Remaining
		if len(s.limits) > 1 || isWindow(l) || r == 0 {
			return
		}
		written := s.writtenWindow(t, w)
		sustained := big.NewRat(l.Limit.Rate, int64(l.Limit.Period/time.Microsecond))
		if big.NewRat(r, written*1e6).Cmp(sustained) > 0 {
			t.Fatalf("%sr=%d;t=%d is more than the sustained rate", s, r, written)
		}
		if l.Algorithm.Refill() == headgate.RefillStepped {
			// refills come at the end of intervals, so the pace holds on average only
			return
		}
		for i := range int64(3) {
			if d := s.decide(t, afterSeconds(s.now, i*written), r, false)[0]; !d.Allowed {
				t.Fatalf("%sr=%d;t=%d: denied at request %d", s, r, written, i+1)
			}
		}
	})
}

// If a limit without units denies one unit, t and Retry-After are equal. For windows
// Retry-After is never less than t, for every cost.
func TestRetryAfterIsNotBeforeWindowEnd(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	eachState(t, caseCount(20_000), func(_ *rand.Rand, s *state) {
		d := s.decisions[0]
		if len(s.limits) > 1 || d.RetryAfter == 0 {
			return
		}
		written, wait := s.writtenWindow(t, w), roundedUp(d.RetryAfter)
		switch {
		case d.Remaining == 0 && s.cost == 1 && written != wait:
			t.Fatalf("%st=%d and Retry-After: %d", s, written, wait)
		case (d.Remaining == 0 || isWindow(s.limits[0])) && written > wait:
			t.Fatalf("%st=%d and Retry-After: %d", s, written, wait)
		}
	})
}
