package redisstore

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// denials remembers keys that have nothing left, as Redis last said. What others spend meanwhile only makes them poorer, so a key
// that has no unit by the remembered state has none in Redis either, unless units are given back: see share.
//
// It has a fixed number of places; a key takes the place of another whose hash is the same.
type denials struct {
	life   int64 // ns; below 0: nothing is remembered
	places [1 << 14]atomic.Pointer[denial]
	shares [1 << 10]share
}

// denial is what was last heard of a key. One that is over says only until which instant the key is known.
type denial struct {
	rule     *rule
	name     string
	at       moment
	over     bool
	changes  bool // with over: it did more than spend
	state    algo.State
	decision headgate.Decision // of a log: the denial of one unit
}

// moment is an instant, and when the call that brought it began and ended by the store's own monotonic clock, in ns.
type moment struct {
	t              int64 // µs
	sent, received int64
	live           bool // t is by the server's clock
}

// share is what rules with one state have in common, and now and then others too: whether units were given back, and whether their
// limits differ, so that each may find more than the other left.
type share struct {
	gaveBack atomic.Bool
	terms    atomic.Pointer[string] // of the first rule
	mixed    atomic.Bool
}

// bind tells of a rule, by what the script reads of it.
func (s *share) bind(head []byte) {
	terms := string(head)
	if !s.terms.CompareAndSwap(nil, &terms) && *s.terms.Load() != terms {
		s.mixed.Store(true)
	}
}

// lost tells of an operation without an answer, which may yet be done.
func (s *share) lost() {
	if s.mixed.Load() {
		s.giveBack()
	}
}

func (s *share) giveBack() {
	if !s.gaveBack.Load() {
		s.gaveBack.Store(true)
	}
}

var seed = maphash.MakeSeed()

func (d *denials) shareOf(state string) *share {
	return &d.shares[maphash.String(seed, state)%uint64(len(d.shares))]
}

func (d *denials) place(name string) *atomic.Pointer[denial] {
	return &d.places[maphash.String(seed, name)%uint64(len(d.places))]
}

// remember keeps what an operation left, if that is nothing; in any case what was known before is over.
func (d *denials) remember(o *op) {
	if d.life >= 0 && !o.leftNothing() {
		d.end(o)
	} else if d.life >= 0 {
		d.put(&denial{rule: o.rule, name: o.name, at: o.at, state: o.after, decision: o.decision})
	}
}

// end ends what is known of a key. Behind what did more than spend, nothing that was heard before it may be entered after it.
func (d *denials) end(o *op) {
	if d.life < 0 {
		return
	}
	changes := o.request.Verb > algo.Peek || o.rule.share.mixed.Load()
	if known := d.place(o.name).Load(); changes || known != nil && known.name == o.name {
		d.put(&denial{rule: o.rule, name: o.name, at: o.at, over: true, changes: changes})
	}
}

// put enters what was heard.
func (d *denials) put(next *denial) {
	place := d.place(next.name)
	for {
		known := place.Load()
		entry := next.after(known)
		if entry == nil || place.CompareAndSwap(known, entry) {
			return
		}
	}
}

// after is what is to be known of a key of which something is known already; nil means that this stays. What is of a later instant
// holds. But where more was done than to spend by one rule nobody can tell what came first, and so nothing is known.
func (k *denial) after(known *denial) *denial {
	switch {
	case known == nil || known.name != k.name || known.at.t < k.at.t:
		return k
	case known.over:
		return nil
	case k.changes || known.rule != k.rule:
		return &denial{rule: k.rule, name: k.name, at: known.at, over: true, changes: true}
	case known.at.t > k.at.t || k.over:
		return nil
	}
	return k
}

// leftNothing reports whether the next unit is certainly denied, and for how long.
func (o *op) leftNothing() bool {
	if o.request.Verb != algo.Take || o.decision.Remaining > 0 || o.decision.Never || o.rule.share.gaveBack.Load() {
		return false
	}
	return o.rule.log == nil || !o.decision.Allowed && o.request.N == 1 // else a log has not said when it has room again
}

// answers reports whether a take is certainly denied, and then answers it: while it waited, its key may have become known.
func (d *denials) answers(o *op) bool {
	if o.request.Verb != algo.Take {
		return false
	}
	decision, known := d.find(o, o.rule.store.elapsed)
	if known {
		o.decision, o.remembered = decision, true
	}
	return known
}

// find is the answer to a take that is certainly denied.
func (d *denials) find(o *op, elapsed func() int64) (headgate.Decision, bool) {
	if d.life < 0 || o.request.N < 1 || o.rule.share.gaveBack.Load() {
		return headgate.Decision{}, false
	}
	known := d.place(o.name).Load()
	if known == nil || known.over || known.rule != o.rule || known.name != o.name || known.at.live != (o.request.T == live) {
		return headgate.Decision{}, false
	}
	mono := elapsed()
	if mono-known.at.received > d.life {
		return headgate.Decision{}, false
	}
	earliest, latest := known.at.span(o.request.T, mono)
	if earliest < known.at.t {
		return headgate.Decision{}, false
	}
	return known.deny(o.request.N, earliest, latest)
}

// span is between which instants now lies: the server decided after the call was sent and before its answer was here.
func (m *moment) span(now, mono int64) (earliest, latest int64) {
	if !m.live {
		return now, now
	}
	return m.t + (mono-m.received)/int64(time.Microsecond), m.t + (mono-m.sent)/int64(time.Microsecond) + 1
}

// deny answers for the earliest instant that it may be, so that a caller who waits as he is told is not too early, if even at the
// latest one there is not a unit.
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
	return k.rule.named(k.rule.step.Answer(s, earliest, cost, 0, false)), true
}

func (k *denial) denyLog(cost, earliest, latest int64) (headgate.Decision, bool) {
	d := k.decision
	if cost != 1 || latest >= k.at.t+d.RetryAfter.Microseconds() {
		return headgate.Decision{}, false
	}
	passed := micros.Duration(earliest - k.at.t)
	d.RetryAfter -= passed
	d.ResetAfter -= passed
	return d, true
}
