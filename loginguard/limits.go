package loginguard

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate/headgate"
)

// Limits configures how many failures are allowed. Each field is a list of limits,
// usually a short and a long one, and all of them must allow an attempt. All lists
// together have at most 32 limits. The limits are token buckets; see [MaxAttempts] for
// what they bound. A nil list means its default. An empty, non-nil list means no limit.
type Limits struct {
	// Pair limits one account from one address, known or not. nil means Lockout{}: 5
	// attempts are free, then the wait before the next attempt is 1 s, doubling to 15
	// min.
	Pair []headgate.Limit
	// Account limits one account from all addresses from which it is not known. nil means
	// Lockout{Free: 20, Step: 4, Factor: 4}.
	Account []headgate.Limit
	// Address limits all accounts from one address from which they are not known. nil
	// means “10/1m burst 30” and “100/24h”.
	Address []headgate.Limit
	// Subnet is like Address, for all addresses of one network. nil means “30/1m burst
	// 100” and “500/24h”.
	Subnet []headgate.Limit
	// Total is like Address, for all clients together. nil means no limit. A client
	// that exhausts Total locks out all clients that are not known.
	Total []headgate.Limit
}

// withDefaults returns l with the defaults in place of nil.
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

// Lockout is a lockout with increasing waits. After Free attempts in a row the wait
// before the next attempt is First. After each Step further attempts the wait is Factor
// times as long, at most Cap.
//
// A Lockout is a set of limits: the k-th allows one attempt per First·Factor^k, with a
// burst of Free + k·Step. It therefore also bounds simultaneous attempts, works with
// every store, and expires automatically as the limits refill.
//
// A field below its minimum has its default.
type Lockout struct {
	Free   int64         // attempts without a wait: at least 1; default 5
	Step   int64         // attempts after which the wait increases: at least 1; default 1
	Factor int64         // factor by which the wait increases: at least 2; default 2
	First  time.Duration // the first wait: above 0; default 1 s
	Cap    time.Duration // the longest wait: above 0; default 15 min
}

// Limits returns the lockout as limits, shortest wait first.
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

// MaxAttempts returns the maximum number of failures that limits together allow in any
// time span of that length, both ends included: the minimum of B + s·L/P, rounded down,
// with burst B, span s and L attempts per period P. It returns [math.MaxInt64] if
// limits is empty. The limits must be valid.
func MaxAttempts(limits []headgate.Limit, span time.Duration) int64 {
	result := int64(math.MaxInt64)
	for _, l := range limits {
		hi, lo := bits.Mul64(uint64(max(span, 0)), uint64(l.Rate))
		if hi >= uint64(l.Period) {
			continue // the quotient exceeds 2^64
		}
		if refilled, _ := bits.Div64(hi, lo, uint64(l.Period)); refilled < math.MaxInt64-headgate.MaxUnits {
			result = min(result, l.Capacity()+int64(refilled))
		}
	}
	return result
}
