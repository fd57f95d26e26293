package redisstore

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// Store is a [headgate.Store] whose state is in Redis or Valkey. It is safe for
// concurrent use.
type Store struct {
	options      Options
	client       Client
	closeClient  func() // closes a client that Open created; nil for a client of the caller
	batchers     batchers
	topology     topologyReader
	guard        guard
	denials      denialCache
	clocks       clockWatch
	createdAt    time.Time
	sharded      atomic.Bool // whether all keys of a call must be in one hash slot
	shardedKnown atomic.Bool // whether sharded has been read from the client
	closed       atomic.Bool
	closeOnce    sync.Once
	clockShift   atomic.Int64 // server's clock minus the clock of this process, in µs; see windows.go

	// ops is a pool of *op. An operation whose result is unknown is not returned to the
	// pool, because its call may still write to it.
	ops        sync.Pool
	guideOwner guideOwner
}

// New creates a store that uses an existing client: see [Rueidis] and package goredis.
// Closing the store does not close the client. New does no I/O. opts may be nil.
func New(client Client, opts *Options) (*Store, error) {
	full, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{options: full, client: client, createdAt: time.Now(), ops: sync.Pool{New: func() any { return new(op) }}}
	for i := range s.batchers {
		s.batchers[i].store = s
	}
	s.topology.ctx, s.topology.cancel = context.WithCancel(context.Background())
	s.denials.ttl = full.DenialCacheTTL.Nanoseconds()
	return s, nil
}

// elapsed returns the time since the store was created, in ns.
func (s *Store) elapsed() int64 { return int64(time.Since(s.createdAt)) }

// withTimeout returns ctx if it has a deadline, and otherwise ctx with the store's
// Timeout.
func (s *Store) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.options.Timeout)
}

// learnSharded asks the client whether all keys of a call must be in one hash slot.
// Once the client has answered without an error, learnSharded does nothing.
func (s *Store) learnSharded(ctx context.Context) error {
	if s.shardedKnown.Load() {
		return nil
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	sharded, err := s.client.Sharded(ctx)
	if err != nil {
		return classify(err)
	}
	s.sharded.Store(sharded)
	s.shardedKnown.Store(true)
	s.refreshTopology(0)
	return nil
}

// Bind prepares a rule for use; see [headgate.Store].
func (s *Store) Bind(r headgate.Rule) (headgate.Bound, error) {
	if s.closed.Load() {
		return nil, headgate.ErrClosed
	}
	if !r.OnStoreError.Closed() {
		return nil, errOnStoreError(r.OnStoreError)
	}
	if r.Lease.Enabled() {
		return nil, errLease()
	}
	a, err := algo.Named(r.Algorithm)
	if err != nil {
		return nil, err
	}
	bound := &rule{
		store: s, keys: newKeyNames(&s.options, a.Name, r.Scope), ruleLimit: r.Limit, deniedBy: []string{r.Name},
		holds:   r.Holds.WithDefaults(a.Name),
		canHold: a.Name.CanHold(), canLease: a.Name.CanLease(), onlyHolds: a.Name.OnlyHolds(),
	}
	bound.shared = s.denials.sharedOf(string(a.Name) + "\x00" + r.Scope)
	if a.NewLog != nil {
		if bound.log, err = a.NewLog(r.Limit); err != nil {
			return nil, err
		}
		bound.limit = r.Limit.Rate
		bound.setHeader(a.Name, bound.log.Params())
		bound.shared.addRule(bound.header)
		return bound, nil
	}
	if bound.step, err = a.New(r.Limit); err != nil {
		return nil, err
	}
	bound.limit = bound.step.Answer(algo.State{}, 0, 0, 0, true).Limit
	if s.options.Layout == LayoutGuide && a.Name == headgate.TokenBucketInterval {
		if err := s.guideOwner.claim(r); err != nil {
			return nil, err
		}
	}
	bound.setHeader(a.Name, bound.step.Params())
	bound.dated, _ = bound.step.(algo.CalendarStepper)
	bound.shared.addRule(bound.identity(r.Limit))
	if s.options.Layout == LayoutGuide && a.Name == headgate.TokenBucketInterval {
		return newGuideRule(bound, r.Limit), nil
	}
	return bound, nil
}

// Close makes all later calls fail with [headgate.ErrClosed], and waits for calls in
// flight for at most 500 ms. If the store was created with [Open], Close then closes the
// connections, and a call without a reply fails; whether its cost was spent is unknown.
// If it was created with [New], such a call ends with its context or the timeout of the
// client. An ephemeral store also removes the keys of its namespace, in at most 5
// minutes.
func (s *Store) Close() error {
	var err error
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.topology.close()
		idle := s.closeBatchers()
		select {
		case <-idle:
		case <-time.After(closeTimeout):
		}
		if s.options.Ephemeral {
			ctx, cancel := context.WithTimeout(context.Background(), ephemeralTimeout)
			defer cancel()
			err = classify(s.client.Remove(ctx, namespacePattern(s.options.Namespace)))
		}
		if s.closeClient != nil {
			s.closeClient()
			<-idle
		}
	})
	return err
}

// closeTimeout is the maximum time for which Close waits for calls in flight.
const closeTimeout = 500 * time.Millisecond

// ephemeralTimeout is the maximum time that Close spends removing the keys of an
// ephemeral store.
const ephemeralTimeout = 5 * time.Minute

// rule is a [headgate.Bound]: a rule that is bound to a store. Exactly one of step and
// log is set.
type rule struct {
	store     *Store
	step      algo.Stepper
	log       algo.LogStepper
	dated     algo.CalendarStepper // step, if its parameters depend on the time; otherwise nil
	keys      keyNames
	header    []byte // number of the algorithm, number of parameters and parameters, in the encoding of the script
	deniedBy  []string
	limit     int64
	ruleLimit headgate.Limit
	shared    *sharedState
	holds     headgate.HoldSettings
	canHold   bool       // whether the algorithm supports holds
	canLease  bool       // whether the algorithm supports leases
	onlyHolds bool       // whether only holds take units
	guide     *guideRule // not nil for a rule in LayoutGuide
}

func (r *rule) setHeader(name headgate.Algorithm, params []int64) {
	r.header = append(r.header, algorithmNumber(name), byte(len(params)))
	for _, param := range params {
		r.header = appendDouble(r.header, param)
	}
}

func (r *rule) withDeniedBy(d headgate.Decision) headgate.Decision {
	if !d.Allowed {
		d.DeniedBy = r.deniedBy
	}
	return d
}

// newOp returns an operation on a key at the instant now.
func (r *rule) newOp(now headgate.Instant, key string, v algo.Verb, cost int64) *op {
	t := int64(now)
	if now == headgate.StoreClock {
		t = serverClock
	}
	o := r.store.ops.Get().(*op)
	o.rule, o.key, o.redisKey = r, key, r.keys.redisKey(key)
	o.request = algo.Request{Verb: v, T: t, N: min(cost, maxCost)}
	return o
}

// recycle returns an operation to the pool. Its call must have ended.
func (o *op) recycle() {
	ops := &o.rule.store.ops
	*o = op{queueEntry: queueEntry{done: o.done}, unused: cmp.Or(o.hold, o.unused)}
	ops.Put(o)
}

// Apply executes the verb v with cost. It takes one round trip, or none if the denial
// cache contains the key. See [headgate.Bound].
func (r *rule) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if err := r.store.checkReady(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb(v)
	}
	if r.onlyHolds && (v == headgate.Take || v == headgate.Refund) {
		return headgate.Decision{}, errHoldRequired(v.String())
	}
	o := r.newOp(now, key, algo.Verb(v), cost)
	if r.onlyHolds && v == headgate.Peek {
		o.request.Verb, o.hold = verbPeekSlots, &holdOp{}
	}
	if v == headgate.Take {
		if d, ok := r.store.denials.lookup(o, r.store.elapsed); ok {
			o.recycle()
			return d, nil
		}
	} else if v != headgate.Peek {
		r.shared.markRefunded()
	}
	if err := r.store.do(ctx, o); err != nil {
		return headgate.Decision{}, err
	}
	d := o.decision
	o.recycle()
	return d, nil
}

// checkReady returns the error because of which a new call cannot start, or nil.
func (s *Store) checkReady(ctx context.Context) error {
	if s.closed.Load() {
		return headgate.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return errNotSent(ctx)
	}
	return s.learnSharded(ctx)
}

// do sends one operation, and updates the denial cache with its result.
func (s *Store) do(ctx context.Context, o *op) error {
	if s.options.NoBatching {
		s.sendAlone(ctx, o)
	} else if err := s.batchers.forKey(s, o.redisKey).do(ctx, o); err != nil {
		o.rule.shared.markLost()
		return err
	}
	switch {
	case o.err != nil:
		o.rule.shared.markLost()
	case !o.fromCache && !o.held && o.hold == nil:
		s.denials.remember(o)
	}
	return o.err
}

// Reserve takes cost units that are available now or within maxDelay; see
// [headgate.Bound].
func (r *rule) Reserve(ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	if !r.CanReserve() {
		return headgate.Decision{}, headgate.ReservationToken{}, errCannotReserve("reserve")
	}
	if err := r.store.checkReady(ctx); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	o := r.newOp(now, key, algo.Reserve, cost)
	o.request.MaxDelay = delayMicros(maxDelay)
	if err := r.store.do(ctx, o); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	return o.decision, headgate.ReservationToken{o.after.A, o.after.B, o.after.C}, nil
}

// Cancel refunds the units that Reserve took; see [headgate.Bound].
func (r *rule) Cancel(ctx context.Context, now headgate.Instant, key string, cost int64, token headgate.ReservationToken) (headgate.Decision, error) {
	if !r.CanReserve() {
		return headgate.Decision{}, errCannotReserve("cancel")
	}
	if err := r.store.checkReady(ctx); err != nil {
		return headgate.Decision{}, err
	}
	r.shared.markRefunded()
	o := r.newOp(now, key, algo.Cancel, cost)
	o.request.Token = algo.State{A: token[0], B: token[1], C: token[2]}
	if err := r.store.do(ctx, o); err != nil {
		return headgate.Decision{}, err
	}
	return o.decision, nil
}

// errCannotReserve is the error for a rule whose algorithm cannot reserve units in
// advance.
func errCannotReserve(verb string) error {
	return errUnsupported(verb, "reservations require "+algo.NamesWhere(headgate.Algorithm.CanReserve))
}

// Spacing returns a lower bound on the time until cost further units become available.
func (r *rule) Spacing(cost int64) time.Duration {
	if r.log != nil {
		return micros.Duration(r.log.Spacing(cost))
	}
	return micros.Duration(r.step.Spacing(cost))
}

// CanReserve reports whether the algorithm can reserve units in advance.
func (r *rule) CanReserve() bool {
	_, ok := r.step.(algo.Reserver)
	return ok
}

// Limit returns the maximum number of units that can be spent at one instant.
func (r *rule) Limit() int64 { return r.limit }
