package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// Store is a [headgate.Store] whose state is in Redis or Valkey. It is safe for concurrent use.
type Store struct {
	options Options
	client  Client
	lanes   lanes
	denials denials
	made    time.Time
	sharded atomic.Bool // keys of one call must share a slot
	asked   atomic.Bool // whether sharded is known
	closed  atomic.Bool
	closing sync.Once
	ops     sync.Pool // of *op; one with an unknown outcome is never reused, because its call may still write to it
}

// New makes a store over a client that the program has: see [Rueidis] and package goredis. Closing the store closes the client. It
// does no I/O. opts may be nil.
func New(client Client, opts *Options) (*Store, error) {
	full, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{options: full, client: client, made: time.Now(), ops: sync.Pool{New: func() any { return new(op) }}}
	for i := range s.lanes {
		s.lanes[i].store = s
	}
	s.denials.life = full.DenialCacheTTL.Nanoseconds()
	return s, nil
}

// elapsed is the time since the store was made, in ns.
func (s *Store) elapsed() int64 { return int64(time.Since(s.made)) }

// bounded is ctx with the store's own deadline, if it has none.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.options.Timeout)
}

// learn asks the client, until it has said so once, whether keys of one call must share a slot.
func (s *Store) learn(ctx context.Context) error {
	if s.asked.Load() {
		return nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	sharded, err := s.client.Sharded(ctx)
	if err != nil {
		return storeError(err)
	}
	s.sharded.Store(sharded)
	s.asked.Store(true)
	return nil
}

// Bind makes a rule ready for use; see [headgate.Store].
func (s *Store) Bind(r headgate.Rule) (headgate.Bound, error) {
	if s.closed.Load() {
		return nil, headgate.ErrClosed
	}
	if !r.OnStoreError.Closed() {
		return nil, errUnsupported("on store error "+string(r.OnStoreError), "wrap this store with fallback.New, which decides while it is away")
	}
	a, err := algo.Named(r.Algorithm)
	if err != nil {
		return nil, err
	}
	bound := &rule{store: s, names: newNames(&s.options, a.Name, r.Scope), deniedBy: []string{r.Name}}
	bound.share = s.denials.shareOf(string(a.Name) + "\x00" + r.Scope)
	if a.NewLog != nil {
		if bound.log, err = a.NewLog(r.Limit); err != nil {
			return nil, err
		}
		bound.limit = r.Limit.Rate
		bound.setHead(a.Name, bound.log.Params())
		bound.share.bind(bound.head)
		return bound, nil
	}
	if bound.step, err = a.New(r.Limit); err != nil {
		return nil, err
	}
	bound.limit = bound.step.Answer(algo.State{}, 0, 0, 0, true).Limit
	bound.setHead(a.Name, bound.step.Params())
	bound.share.bind(bound.head)
	if s.options.Layout == LayoutGuide && a.Name == headgate.TokenBucketInterval {
		return newGuideRule(bound, r.Limit), nil
	}
	return bound, nil
}

// Close answers [headgate.ErrClosed] from now on, waits for what is under way, half a second at most, and closes the client. Whoever
// is not answered by then is told that the outcome is unknown.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		s.closed.Store(true)
		empty := s.lanes.close()
		select {
		case <-empty:
		case <-time.After(closeTimeout):
		}
		if s.options.Ephemeral {
			ctx, cancel := context.WithTimeout(context.Background(), ephemeralTimeout)
			defer cancel()
			err = storeError(s.client.Remove(ctx, namespacePattern(s.options.Namespace)))
		}
		s.client.Close()
		<-empty
	})
	return err
}

// closeTimeout is how long what is under way has when the store is closed.
const closeTimeout = 500 * time.Millisecond

// ephemeralTimeout bounds the removal of a namespace.
const ephemeralTimeout = 5 * time.Minute

// rule is a bound rule: a [headgate.Bound]. Exactly one of step and log is set.
type rule struct {
	store    *Store
	step     algo.Stepper
	log      algo.LogStepper
	names    names
	head     []byte // as the script reads it: algorithm, number of terms, terms
	deniedBy []string
	limit    int64
	share    *share
	guide    *guideRule // what it is part of in the guides' layout
}

func (r *rule) setHead(name headgate.Algorithm, terms []int64) {
	r.head = append(r.head, numberOf(name), byte(len(terms)))
	for _, term := range terms {
		r.head = appendDouble(r.head, term)
	}
}

func (r *rule) named(d headgate.Decision) headgate.Decision {
	if !d.Allowed {
		d.DeniedBy = r.deniedBy
	}
	return d
}

// newOp is one operation on a key at now.
func (r *rule) newOp(now headgate.Instant, key string, v algo.Verb, cost int64) *op {
	t := int64(now)
	if now == headgate.StoreClock {
		t = live
	}
	o := r.store.ops.Get().(*op)
	o.rule, o.key, o.name = r, key, r.names.of(key)
	o.request = algo.Request{Verb: v, T: t, N: min(cost, maxUnits)}
	return o
}

// recycle gives back an operation that has its answer.
func (o *op) recycle() {
	ops := &o.rule.store.ops
	*o = op{queued: queued{done: o.done}}
	ops.Put(o)
}

// Apply does verb with cost: one round trip, or none for a key that is known to have nothing left. See [headgate.Bound].
func (r *rule) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if err := r.store.ready(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb()
	}
	o := r.newOp(now, key, algo.Verb(v), cost)
	if v == headgate.Take {
		if d, ok := r.store.denials.find(o, r.store.elapsed); ok {
			o.recycle()
			return d, nil
		}
	} else if v != headgate.Peek {
		r.share.giveBack()
	}
	if err := r.store.do(ctx, o); err != nil {
		return headgate.Decision{}, err
	}
	d := o.decision
	o.recycle()
	return d, nil
}

// ready reports why a call cannot begin.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return headgate.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return errNotSent(ctx)
	}
	return s.learn(ctx)
}

// do sends one operation.
func (s *Store) do(ctx context.Context, o *op) error {
	if s.options.NoBatching {
		s.sendAlone(ctx, o)
	} else if err := s.lanes.of(s, o.name).do(ctx, o); err != nil {
		o.rule.share.lost()
		return err
	}
	switch {
	case o.err != nil:
		o.rule.share.lost()
	case !o.remembered:
		s.denials.remember(o)
	}
	return o.err
}

// Reserve takes cost even when it is still to come; see [headgate.Bound].
func (r *rule) Reserve(ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	if !r.CanReserve() {
		return headgate.Decision{}, headgate.ReservationToken{}, errNoBooking("reserve")
	}
	if err := r.store.ready(ctx); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	o := r.newOp(now, key, algo.Reserve, cost)
	o.request.MaxDelay = wait(maxDelay)
	if err := r.store.do(ctx, o); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	return o.decision, headgate.ReservationToken{o.after.A, o.after.B, o.after.C}, nil
}

// Cancel gives back what a Reserve took; see [headgate.Bound].
func (r *rule) Cancel(ctx context.Context, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken) (headgate.Decision, error) {
	if !r.CanReserve() {
		return headgate.Decision{}, errNoBooking("cancel")
	}
	if err := r.store.ready(ctx); err != nil {
		return headgate.Decision{}, err
	}
	r.share.giveBack()
	o := r.newOp(now, key, algo.Cancel, cost)
	o.request.Mark = algo.State{A: mark[0], B: mark[1], C: mark[2]}
	if err := r.store.do(ctx, o); err != nil {
		return headgate.Decision{}, err
	}
	return o.decision, nil
}

// errNoBooking is for a rule whose algorithm cannot reserve.
func errNoBooking(verb string) error {
	return errUnsupported(verb, "reservations require "+algo.NamesWhere(headgate.Algorithm.CanReserve))
}

// Spacing is a lower bound of the time that cost more units need.
func (r *rule) Spacing(cost int64) time.Duration {
	if r.log != nil {
		return micros.Duration(r.log.Spacing(cost))
	}
	return micros.Duration(r.step.Spacing(cost))
}

// Books reports whether the algorithm can book ahead.
func (r *rule) CanReserve() bool {
	_, ok := r.step.(algo.Reserver)
	return ok
}

// Limit is the most that can be spent at once, in units.
func (r *rule) Limit() int64 { return r.limit }
