package memcachedstore

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// bound is a rule that is bound to a store. Either log is set, for an algorithm whose
// state is a list, or step.
type bound struct {
	store     *Store
	scope     scope
	step      algo.Stepper
	reserver  algo.Reserver // nil if the algorithm cannot reserve units in advance
	log       algo.LogStepper
	limit     int64
	ruleLimit headgate.Limit
	deniedBy  []string

	holds     headgate.HoldSettings
	canHold   bool           // whether the algorithm supports holds
	canLease  bool           // whether the algorithm supports leases
	onlyHolds bool           // whether only holds take units
	corrector algo.Corrector // step; nil for a log
}

// Apply executes the verb v with cost; see [headgate.Bound].
func (b *bound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb(v)
	}
	if b.onlyHolds && (v == headgate.Take || v == headgate.Refund) {
		return headgate.Decision{}, errHoldRequired(v.String())
	}
	q, err := b.do(ctx, now, key, algo.Request{Verb: algo.Verb(v), N: cost})
	return q.decision, err
}

// Reserve takes cost units that are available now or within maxDelay; see
// [headgate.Bound].
func (b *bound) Reserve(
	ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	if err := b.checkReserve("reserve"); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	maxDelayMicros := min(maxDelay, headgate.MaxFillTime).Microseconds()
	q, err := b.do(ctx, now, key, algo.Request{Verb: algo.Reserve, N: cost, MaxDelay: maxDelayMicros})
	return q.decision, q.token, err
}

// Cancel refunds the units that Reserve took; see [headgate.Bound].
func (b *bound) Cancel(ctx context.Context, now headgate.Instant, key string, cost int64, token headgate.ReservationToken) (headgate.Decision, error) {
	if err := b.checkReserve("cancel"); err != nil {
		return headgate.Decision{}, err
	}
	after := algo.State{A: token[0], B: token[1], C: token[2]}
	q, err := b.do(ctx, now, key, algo.Request{Verb: algo.Cancel, N: cost, Token: after})
	return q.decision, err
}

func (b *bound) checkReserve(verb string) error {
	if b.store.isClosed() {
		return headgate.ErrClosed
	}
	if b.reserver == nil {
		return errCannotReserve(verb)
	}
	return nil
}

// do executes one request on one key. After an error the returned singleKey is empty:
// the caller has stopped waiting and must not read the original one, which a round may
// still write.
func (b *bound) do(ctx context.Context, now headgate.Instant, key string, request algo.Request) (*singleKey, error) {
	q := &singleKey{bound: b, request: request}
	j := &job{now: now, peek: request.Verb == algo.Peek, single: q, done: make(chan struct{})}
	if err := b.store.do(ctx, j, []digest{b.scope.digest(key)}); err != nil {
		return &singleKey{}, err
	}
	return q, nil
}

// Spacing returns a lower bound on the time until cost further units become available.
func (b *bound) Spacing(cost int64) time.Duration {
	if b.log != nil {
		return micros.Duration(b.log.Spacing(cost))
	}
	return micros.Duration(b.step.Spacing(cost))
}

// CanReserve reports whether the algorithm can reserve units in advance.
func (b *bound) CanReserve() bool { return b.reserver != nil }

// Node returns the address of the server that stores a key, if there are several; see
// [headgate.NodeOf]. Otherwise, and with an existing client, it returns "".
func (b *bound) Node(key string) string {
	if len(b.store.servers) < 2 {
		return ""
	}
	return b.store.servers[b.store.servers.index(b.scope.digest(key).name())].String()
}

// Limit returns the maximum number of units that can be spent at one instant.
func (b *bound) Limit() int64 { return b.limit }

func (b *bound) withDeniedBy(d headgate.Decision) headgate.Decision {
	if !d.Allowed {
		d.DeniedBy = b.deniedBy
	}
	return d
}
