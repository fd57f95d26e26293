package loginguard

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate/headgate"
)

// Limits are how many failures there may be. Each kind has any number of limits (a short and a long window, mostly), and all of
// them must admit a try; together at most 32. They are token buckets: see [Most] for what they bound. A kind that is nil has its
// default, one that is empty and not nil is not limited.
type Limits struct {
	// Pair is for one account from one address, known or not. nil means Lockout{}: 5 tries are free, then one may follow after 1
	// s, doubling to 15 min.
	Pair []headgate.Limit
	// Account is for one account from all addresses that it is not known from. nil means Lockout{Free: 20, Step: 4, Factor: 4}.
	Account []headgate.Limit
	// Address is for all accounts from one address that they are not known from. nil means “10/1m burst 30” and “100/24h”.
	Address []headgate.Limit
	// Subnet is the same for the addresses of one network. nil means “30/1m burst 100” and “500/24h”.
	Subnet []headgate.Limit
	// Total is the same for everybody together. nil means none: whoever exhausts it locks all out who are not known.
	Total []headgate.Limit
}

// withDefaults is l with each nil in its default.
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

// Lockout is a lock-out that grows: after Free tries in a row each has to wait, for First at first, Factor times as long after
// Step more, and never longer than Cap. It is a set of plain limits: the k-th is one try per First·Factor^k, with a burst of Free
// + k·Step. That is a curve that flattens out, drawn by its tangents; so it holds for tries at once, on every store, and it is
// forgotten by itself as the limits fill up.
//
// A field that is not above its least has its default.
type Lockout struct {
	Free   int64         // tries without a wait: at least 1; default 5
	Step   int64         // tries between one wait and the next longer one: at least 1; default 1
	Factor int64         // how much longer it is: at least 2; default 2
	First  time.Duration // the first wait: above 0; default 1 s
	Cap    time.Duration // the longest wait: above 0; default 15 min
}

// Limits is the lock-out as limits, shortest wait first.
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

// Most is the most failures that limits, all together, admit in any span of that length, both ends included: the least of B +
// s·L/P, rounded down. Without limits it is [math.MaxInt64]. The limits must be valid.
func MaxAttempts(limits []headgate.Limit, span time.Duration) int64 {
	most := int64(math.MaxInt64)
	for _, l := range limits {
		hi, lo := bits.Mul64(uint64(max(span, 0)), uint64(l.Rate))
		if hi >= uint64(l.Period) {
			continue // beyond 2^64
		}
		if refilled, _ := bits.Div64(hi, lo, uint64(l.Period)); refilled < math.MaxInt64-headgate.MaxUnits {
			most = min(most, l.Capacity()+int64(refilled))
		}
	}
	return most
}
