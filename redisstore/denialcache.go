package redisstore

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// denialCache stores the keys that have nothing left, as of Redis' last reply. What
// other processes spend in the meantime only lowers the balance. So a key that has no
// unit by the cached state has none in Redis either, unless units are refunded: see
// sharedState.
//
// The number of entries is fixed. A key replaces another key with the same hash.
type denialCache struct {
	ttl     int64 // ns; below 0 disables the cache
	entries [1 << 14]atomic.Pointer[denial]
	shared  [1 << 10]sharedState
}

// denial is the last result for a key. An invalid one only records until which instant
// the key is known.
type denial struct {
	rule      *rule
	redisKey  string
	timestamp timestamp
	invalid   bool
	unordered bool // with invalid: the operation did more than spend
	state     algo.State
	decision  headgate.Decision // of a log: the denial of one unit
}

// timestamp is the instant of a decision. It also has the begin and end of the call
// that returned it, by the store's own monotonic clock in ns.
type timestamp struct {
	t              int64 // µs
	sent, received int64
	serverClock    bool // t is by the server's clock
}

// sharedState is what rules with the same state share; after a hash collision other
// rules share it, too. It records whether units were refunded, and whether the rules'
// limits differ: then each rule may find more than the other left.
type sharedState struct {
	refunded    atomic.Bool
	params      atomic.Pointer[string] // of the first rule
	mixedLimits atomic.Bool
}

// addRule records a rule by the header that the script reads.
func (s *sharedState) addRule(header []byte) {
	params := string(header)
	if !s.params.CompareAndSwap(nil, &params) && *s.params.Load() != params {
		s.mixedLimits.Store(true)
	}
}

// markLost records an operation without a reply, which may still be executed.
func (s *sharedState) markLost() {
	if s.mixedLimits.Load() {
		s.markRefunded()
	}
}

func (s *sharedState) markRefunded() {
	if !s.refunded.Load() {
		s.refunded.Store(true)
	}
}

var seed = maphash.MakeSeed()

func (d *denialCache) sharedOf(state string) *sharedState {
	return &d.shared[maphash.String(seed, state)%uint64(len(d.shared))]
}

func (d *denialCache) entry(redisKey string) *atomic.Pointer[denial] {
	return &d.entries[maphash.String(seed, redisKey)%uint64(len(d.entries))]
}

// remember stores the state that an operation left if nothing is left. Otherwise it
// invalidates the entry of the key.
func (d *denialCache) remember(o *op) {
	if d.ttl >= 0 && !o.exhausted() {
		d.invalidate(o)
	} else if d.ttl >= 0 {
		d.put(&denial{rule: o.rule, redisKey: o.redisKey, timestamp: o.timestamp, state: o.after, decision: o.decision})
	}
}

// invalidate invalidates the entry of a key. After an operation that did more than
// spend, no earlier result may be stored.
func (d *denialCache) invalidate(o *op) {
	if d.ttl < 0 {
		return
	}
	unordered := o.request.Verb > algo.Peek || o.rule.shared.mixedLimits.Load()
	if known := d.entry(o.redisKey).Load(); unordered || known != nil && known.redisKey == o.redisKey {
		d.put(&denial{rule: o.rule, redisKey: o.redisKey, timestamp: o.timestamp, invalid: true, unordered: unordered})
	}
}

// put stores a result.
func (d *denialCache) put(next *denial) {
	entry := d.entry(next.redisKey)
	for {
		known := entry.Load()
		merged := next.merge(known)
		if merged == nil || entry.CompareAndSwap(known, merged) {
			return
		}
	}
}

// merge returns the entry that results from k and the current entry of the same hash;
// nil keeps the current one. The result with the later instant applies. If an operation
// did more than spend by one rule, the order is unknown and the entry becomes invalid.
func (k *denial) merge(known *denial) *denial {
	switch {
	case known == nil || known.redisKey != k.redisKey || known.timestamp.t < k.timestamp.t:
		return k
	case known.invalid:
		return nil
	case k.unordered || known.rule != k.rule:
		return &denial{rule: k.rule, redisKey: k.redisKey, timestamp: known.timestamp, invalid: true, unordered: true}
	case known.timestamp.t > k.timestamp.t || k.invalid:
		return nil
	}
	return k
}

// exhausted reports whether the next unit is certainly denied, and for how long is
// known.
func (o *op) exhausted() bool {
	if o.request.Verb != algo.Take || o.decision.Remaining > 0 || o.decision.Never || o.rule.shared.refunded.Load() {
		return false
	}
	// A log reports when it has room again only in the denial of one unit.
	return o.rule.log == nil || !o.decision.Allowed && o.request.N == 1
}

// answer decides a queued take that is certainly denied from the cache, and reports
// whether it did. While the take was queued, its key may have been cached.
func (d *denialCache) answer(o *op) bool {
	if o.request.Verb != algo.Take {
		return false
	}
	decision, known := d.lookup(o, o.rule.store.elapsed)
	if known {
		o.decision, o.fromCache = decision, true
	}
	return known
}

// lookup returns the decision for a take that is certainly denied.
func (d *denialCache) lookup(o *op, elapsed func() int64) (headgate.Decision, bool) {
	if d.ttl < 0 || o.request.N < 1 || o.rule.shared.refunded.Load() {
		return headgate.Decision{}, false
	}
	known := d.entry(o.redisKey).Load()
	if known == nil || known.invalid || known.rule != o.rule || known.redisKey != o.redisKey ||
		known.timestamp.serverClock != (o.request.T == serverClock) {
		return headgate.Decision{}, false
	}
	monotonic := elapsed()
	if monotonic-known.timestamp.received > d.ttl {
		return headgate.Decision{}, false
	}
	earliest, latest := known.timestamp.bounds(o.request.T, monotonic)
	if earliest < known.timestamp.t {
		return headgate.Decision{}, false
	}
	return known.deny(o.request.N, earliest, latest)
}

// bounds returns the earliest and the latest instant that the server's clock may show
// now. The server decided after the call was sent and before its reply arrived.
func (ts *timestamp) bounds(now, monotonic int64) (earliest, latest int64) {
	if !ts.serverClock {
		return now, now
	}
	return ts.t + (monotonic-ts.received)/int64(time.Microsecond), ts.t + (monotonic-ts.sent)/int64(time.Microsecond) + 1
}

// deny returns a denial if there is no unit even at the latest instant. The decision is
// computed for the earliest instant, so that a caller who waits for RetryAfter is not
// too early.
func (k *denial) deny(cost, earliest, latest int64) (headgate.Decision, bool) {
	if k.rule.log != nil {
		return k.denyLog(cost, earliest, latest)
	}
	if _, ok := k.rule.step.Take(k.state, latest, 1); ok {
		return headgate.Decision{}, false
	}
	s, ok := k.rule.step.Take(k.state, earliest, cost)
	if ok {
		return headgate.Decision{}, false
	}
	return k.rule.withDeniedBy(k.rule.step.Answer(s, earliest, cost, 0, false)), true
}

func (k *denial) denyLog(cost, earliest, latest int64) (headgate.Decision, bool) {
	d := k.decision
	if cost != 1 || latest >= k.timestamp.t+d.RetryAfter.Microseconds() {
		return headgate.Decision{}, false
	}
	passed := micros.Duration(earliest - k.timestamp.t)
	d.RetryAfter -= passed
	d.ResetAfter -= passed
	return d, true
}
