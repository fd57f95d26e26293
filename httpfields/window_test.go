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

func windowed(l httpfields.Limit) bool {
	return l.Algorithm.Windowed()
}

// window is the t that the i-th limit should have, by other means than the code's: exact fractions, and the store's own word.
func (s *state) window(tb testing.TB, i int) int64 {
	tb.Helper()
	l, d := s.limits[i], s.decisions[i]
	switch {
	case windowed(l) && d.RetryAfter > 0:
		return roundedUp(min(d.RetryAfter, d.ResetAfter))
	case windowed(l) && d.ResetAfter > 0:
		return roundedUp(d.ResetAfter)
	case windowed(l):
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

// mayBeLate reports whether a t of one second more is right as well. The decision knows waits in whole microseconds: if it is not
// on a cost of 1, the wait for a unit may be found a microsecond too long.
func (s *state) mayBeLate(tb testing.TB, i int) bool {
	tb.Helper()
	l, d := s.limits[i], s.decisions[i]
	return !windowed(l) && d.Remaining == 0 && (d.Allowed || s.cost != 1) && s.peekOne(tb, i, s.now, 1).RetryAfter%time.Second == 0
}

// toldWindow is the t of the only limit of a state.
func (s *state) toldWindow(tb testing.TB, w *httpfields.Writer) int64 {
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

func inSeconds(t headgate.Instant, seconds int64) headgate.Instant {
	return t + headgate.Instant(seconds*1e6)
}

// T25. Whoever waits as long as Retry-After says is admitted with the same cost, by all limits together; whoever comes back at
// X-RateLimit-Reset as well.
func TestRetryAfterIsEnough(t *testing.T) {
	t.Parallel()
	w := newWriter(t, speaking(httpfields.IETF, httpfields.GitHub))
	var denied, exact atomic.Int64
	eachState(t, few(20_000), func(_ *rand.Rand, s *state) {
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
		for _, then := range []headgate.Instant{inSeconds(s.now, wait), headgate.Instant(reset * 1e6)} {
			if d := root.Combine(s.decide(t, then, s.cost, true)); !d.Allowed {
				t.Fatalf("%s%sat %d it is denied again: %+v", s, lines(h), then, d)
			}
		}
		if d := root.Combine(s.decide(t, inSeconds(s.now, wait-1), s.cost, true)); !d.Allowed {
			exact.Add(1)
		}
	})
	if n := denied.Load(); n < int64(few(20_000))/20 || exact.Load() != n {
		t.Errorf("%d states were denied, in %d of them a second less is not enough", n, exact.Load())
	}
}

// What RateLimit says is there is there, and not a unit more. With nothing remaining a unit is there after t.
func TestRemainingIsThere(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	var empty atomic.Int64
	eachState(t, few(20_000), func(_ *rand.Rand, s *state) {
		if len(s.limits) > 1 {
			return
		}
		told, r := s.toldWindow(t, w), s.decisions[0].Remaining
		if !s.peekOne(t, 0, s.now, r).Allowed || s.peekOne(t, 0, s.now, r+1).Allowed {
			t.Fatalf("%sr=%d, and there is less or more", s, r)
		}
		if r > 0 {
			return
		}
		empty.Add(1)
		if !s.peekOne(t, 0, inSeconds(s.now, told), 1).Allowed {
			t.Fatalf("%sr=0;t=%d, and no unit is there at t", s, told)
		}
	})
	if n := empty.Load(); n < int64(few(20_000))/20 {
		t.Errorf("only %d states were empty: this test shows little", n)
	}
}

// No more than r units can be spent within t, but for the second by which t is rounded up: of a fixed window that is in use, and
// of every limit that has nothing left and denied one unit, and of a sliding log that denied one more than it has.
func TestNoMoreThanRemainsWithinT(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	var fixed, denied atomic.Int64
	eachState(t, few(20_000), func(_ *rand.Rand, s *state) {
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
		end := inSeconds(s.now, s.toldWindow(t, w)-1)
		if d := s.decide(t, s.now, d.Remaining, false)[0]; !d.Allowed {
			t.Fatalf("%swhat remains is not there: %+v", s, d)
		}
		if s.peekOne(t, 0, end, 1).Allowed {
			t.Fatalf("%s%d units are spent, and one more is there at %d", s, d.Remaining, end)
		}
	})
	if least := int64(few(20_000)) / 500; fixed.Load() < least || denied.Load() < least {
		t.Errorf("only %d fixed windows and %d denials: this test shows little", fixed.Load(), denied.Load())
	}
}

// For buckets r/t is never above the sustained rate, and who spends r units every t seconds is never denied.
func TestBucketsArePacedByT(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	eachState(t, few(20_000), func(_ *rand.Rand, s *state) {
		l, r := s.limits[0], s.decisions[0].Remaining
		if len(s.limits) > 1 || windowed(l) || r == 0 {
			return
		}
		told := s.toldWindow(t, w)
		sustained := big.NewRat(l.Limit.Rate, int64(l.Limit.Period/time.Microsecond))
		if big.NewRat(r, told*1e6).Cmp(sustained) > 0 {
			t.Fatalf("%sr=%d;t=%d is more than the sustained rate", s, r, told)
		}
		if l.Algorithm.Refill() == headgate.RefillStepped {
			return // refills come at the end of intervals: on average alone
		}
		for i := range int64(3) {
			if d := s.decide(t, inSeconds(s.now, i*told), r, false)[0]; !d.Allowed {
				t.Fatalf("%sr=%d;t=%d, and the %d. time it is denied", s, r, told, i+1)
			}
		}
	})
}

// On a denial of one unit by a limit that has none the end of t and Retry-After are the same instant; for windows Retry-After is
// never before it, whatever the cost.
func TestRetryAfterIsNotBeforeTheEndOfT(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	eachState(t, few(20_000), func(_ *rand.Rand, s *state) {
		d := s.decisions[0]
		if len(s.limits) > 1 || d.RetryAfter == 0 {
			return
		}
		told, wait := s.toldWindow(t, w), roundedUp(d.RetryAfter)
		switch {
		case d.Remaining == 0 && s.cost == 1 && told != wait:
			t.Fatalf("%st=%d and Retry-After: %d", s, told, wait)
		case (d.Remaining == 0 || windowed(s.limits[0])) && told > wait:
			t.Fatalf("%st=%d and Retry-After: %d", s, told, wait)
		}
	})
}
