package loginguard

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate/headgate"
)

// Limits configures how many failures are allowed. Each field is a list of limits,
// usually a short and a long one. An attempt is allowed only if every limit that
// applies to it allows it. All lists together have at most 32 limits. The limits are
// token buckets; [MaxAttempts] returns how many failures they allow in a time span. A
// nil list means the default of the field. An empty, non-nil list means no limit.
type Limits struct {
	// Pair limits the failures of one account from one address, whether the pair is
	// known or not. nil means Lockout{}: the first 5 attempts need no wait, then the
	// wait before the next attempt is 1 s, and doubles to at most 15 min.
	Pair []headgate.Limit
	// Account limits the failures of one account from all addresses together. Known
	// pairs are not counted. nil means Lockout{Free: 20, Step: 4, Factor: 4}.
	Account []headgate.Limit
	// Address limits the failures from one address for all accounts together. Known
	// pairs are not counted. nil means “10/1m burst 30” and “100/24h”.
	Address []headgate.Limit
	// Subnet is like Address, but applies to all addresses of one network together. nil
	// means “30/1m burst 100” and “500/24h”.
	Subnet []headgate.Limit
	// Total is like Address, but applies to all clients together. nil means no limit. A
	// client that exhausts Total locks out all clients without a known pair.
	Total []headgate.Limit
}

// withDefaults returns l with each nil list replaced by its default.
func (l Limits) withDefaults() Limits {
	if l.Pair == nil {
		l.Pair = Lockout{}.Limits()
	}
	if l.Account == nil {
		l.Account = Lockout{Free: 20, Step: 4, Factor: 4}.Limits()
	}
	if l.Address == nil {
		l.Address = headgate.MustPolicy("10/1m burst 30", "100/24h").Limits
	}
	if l.Subnet == nil {
		l.Subnet = headgate.MustPolicy("30/1m burst 100", "500/24h").Limits
	}
	return l
}

// Lockout makes clients wait for longer and longer between failed attempts. After Free
// attempts in a row, the wait before the next attempt is First. After every further
// Step attempts the wait is multiplied by Factor, up to Cap.
//
// Lockout.Limits implements the lockout as a set of token buckets: limit k (from 0)
// allows one attempt per First·Factor^k, with a burst of Free + k·Step. The lockout
// therefore also applies to simultaneous attempts, works with every store, and ends
// automatically as the buckets refill.
//
// A field below its minimum is replaced by its default.
type Lockout struct {
	Free   int64         // number of attempts without a wait: at least 1; default 5
	Step   int64         // number of attempts between two increases of the wait: at least 1; default 1
	Factor int64         // factor by which the wait increases: at least 2; default 2
	First  time.Duration // the first wait: above 0; default 1 s
	Cap    time.Duration // the longest wait: above 0; default 15 min
}

// Limits returns the limits that implement the lockout, shortest wait first.
func (l Lockout) Limits() []headgate.Limit {
	l = l.withDefaults()
	var limits []headgate.Limit
	wait, free := min(l.First, l.Cap), l.Free
	for ; wait < l.Cap; wait = l.next(wait) {
		limits = append(limits, headgate.Limit{Rate: 1, Period: wait, Burst: free})
		free += l.Step
	}
	return append(limits, headgate.Limit{Rate: 1, Period: l.Cap, Burst: free})
}

func (l Lockout) next(wait time.Duration) time.Duration {
	if wait > l.Cap/time.Duration(l.Factor) {
		return l.Cap
	}
	return wait * time.Duration(l.Factor)
}

func (l Lockout) withDefaults() Lockout {
	if l.Free < 1 {
		l.Free = 5
	}
	if l.Step < 1 {
		l.Step = 1
	}
	if l.Factor < 2 {
		l.Factor = 2
	}
	if l.First <= 0 {
		l.First = time.Second
	}
	if l.Cap <= 0 {
		l.Cap = 15 * time.Minute
	}
	return l
}

// MaxAttempts returns the maximum number of failures that the given limits, applied
// together, allow in any time interval of length span that includes both of its ends.
// This is the minimum, over the limits, of B + span·L/P rounded down, where a limit has
// the burst B and the rate of L attempts per period P. MaxAttempts returns
// [math.MaxInt64] if limits is empty. The limits must be valid.
func MaxAttempts(limits []headgate.Limit, span time.Duration) int64 {
	result := int64(math.MaxInt64)
	for _, l := range limits {
		hi, lo := bits.Mul64(uint64(max(span, 0)), uint64(l.Rate))
		if hi >= uint64(l.Period) {
			continue // the quotient exceeds 2^64
		}
		if refilled, _ := bits.Div64(hi, lo, uint64(l.Period)); refilled < math.MaxInt64-headgate.MaxWindowUnits {
			result = min(result, l.Capacity()+int64(refilled))
		}
	}
	return result
}
