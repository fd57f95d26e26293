package redisstore

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// denialCache stores keys that have no units left according to Redis' last reply.
// Requests of other processes only spend more units in the meantime. So if no unit is
// available by the cached state, none is available in Redis either, unless units were
// refunded: see sharedState.
//
// The number of entries is fixed. A key replaces the previous key with the same hash.
type denialCache struct {
	ttl     int64 // in ns; if below 0, the cache is disabled
	entries [1 << 14]atomic.Pointer[denial]
	shared  [1 << 10]sharedState
}

// denial is the last result for a key. If invalid is set, there is no cached denial,
// and the entry only records the instant of the last result.
type denial struct {
	rule      *rule
	redisKey  string
	timestamp timestamp
	invalid   bool
	unordered bool // set together with invalid if the operation did not only spend units
	state     algo.State
	decision  headgate.Decision // for a sliding log: the denial of one unit
}

// timestamp is the instant of a decision, and the times at which its call was sent and
// its reply was received. These two times are in ns since the store was created.
type timestamp struct {
	t              int64 // instant of the decision in µs
	sent, received int64
	serverClock    bool // whether t is by the server's clock
}

// sharedState is shared by all rules with the same state in Redis. Rules with a hash
// collision share it, too. It records whether units were refunded, and whether the
// rules have different limits: then a key may have units left by one rule although it
// has none by another.
type sharedState struct {
	refunded    atomic.Bool
	params      atomic.Pointer[string] // parameters of the first rule
	mixedLimits atomic.Bool
}

// addRule records a rule, given its header in the encoding of the script.
func (s *sharedState) addRule(header []byte) {
	params := string(header)
	if !s.params.CompareAndSwap(nil, &params) && *s.params.Load() != params {
		s.mixedLimits.Store(true)
	}
}

// markLost records that an operation got no reply; the server may still execute it.
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

// remember caches the result of an operation if it left no units. Otherwise it
// invalidates the entry of the key.
func (d *denialCache) remember(o *op) {
	if d.ttl >= 0 && !o.exhausted() {
		d.invalidate(o)
	} else if d.ttl >= 0 {
		d.put(&denial{rule: o.rule, redisKey: o.redisKey, timestamp: o.timestamp, state: o.after, decision: o.decision})
	}
}

// invalidate invalidates the entry of an operation's key. If the operation did not only
// spend units, results from before the operation can no longer be cached.
func (d *denialCache) invalidate(o *op) {
	if d.ttl < 0 {
		return
	}
	unordered := o.request.Verb > algo.Peek || o.rule.shared.mixedLimits.Load()
	if known := d.entry(o.redisKey).Load(); unordered || known != nil && known.redisKey == o.redisKey {
		d.put(&denial{rule: o.rule, redisKey: o.redisKey, timestamp: o.timestamp, invalid: true, unordered: unordered})
	}
}

// put stores a result in the entry of its key, if merge does not prefer the current
// entry.
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

// merge returns the denial to store in an entry after the result k. known is the denial
// that the entry has now; if merge returns nil, known stays. If k is for a different key
// or has a later instant than known, k is stored. Otherwise an invalid known stays. If
// the two are of different rules, or if the operation of k did not only spend units,
// their order is unknown, and merge returns an invalid denial. In all other cases, k is
// stored if it is valid and has the same instant as known.
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

// exhausted reports whether the operation's result can be cached: a request for one
// more unit would certainly be denied, and it is known until when.
func (o *op) exhausted() bool {
	if o.request.Verb != algo.Take || o.decision.Remaining > 0 || o.decision.Never || o.rule.shared.refunded.Load() {
		return false
	}
	// For a log, only the denial of one unit contains the time at which a unit is
	// available.
	return o.rule.log == nil || !o.decision.Allowed && o.request.N == 1
}

// answer decides a queued take from the cache if it is certainly denied, and reports
// whether it did. The denial of the key may have been cached while the take was queued.
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

// lookup returns the decision for a take that is certainly denied, and whether there is
// such a decision in the cache.
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

// bounds returns the earliest and the latest instant that may be the current time of
// the server's clock. The server decided after the call was sent and before its reply
// arrived. If a caller passed the instant of the decision, bounds returns the parameter
// now twice.
func (ts *timestamp) bounds(now, monotonic int64) (earliest, latest int64) {
	if !ts.serverClock {
		return now, now
	}
	return ts.t + (monotonic-ts.received)/int64(time.Microsecond), ts.t + (monotonic-ts.sent)/int64(time.Microsecond) + 1
}

// deny returns a denial if no unit is available even at the instant latest. The
// decision is computed for the instant earliest, so that a caller that waits for
// RetryAfter does not return too early.
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
