package grpclimit

import (
	"context"
	"errors"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
	"github.com/headgate/headgate/internal/turn"
)

// clientHolds are the open holds of a call. nil has none.
type clientHolds struct {
	alive   *headgate.KeepAlive
	holds   []clientHold     // holds that end with the call
	charged []*headgate.Hold // holds of charges that are final if the call is sent
	once    sync.Once
}

// clientHold is a hold that ends with the call.
type clientHold struct {
	*headgate.Hold
	charge *Charge
	cost   int64
}

// clientPart is a charge that applies to a call.
type clientPart struct {
	charge  *clientCharge
	limiter *headgate.Limiter
	key     string
	cost    int64
	err     error // error of the charge's limits
}

// parts appends the charges that apply to a call in the phase p to dst.
func (c *Client) parts(ctx context.Context, dst []clientPart, call Call, p phase) []clientPart {
	for i := range c.charges {
		charge := &c.charges[i]
		if !p.includes(&charge.Charge) || !charge.applies(ctx, call) {
			continue
		}
		part := clientPart{charge: charge, key: charge.Key.compiled.Text(keyRequest{ctx: ctx, call: call}), cost: charge.cost(ctx, call)}
		part.limiter, part.err = charge.limiterFor(ctx, call)
		dst = append(dst, part)
	}
	return dst
}

// takeNow makes several charges in one store operation, if all their units are available
// and no other call waits for them. It reports whether it has made them.
func (c *Client) takeNow(ctx context.Context, parts []clientPart) bool {
	if len(parts) < 2 {
		return false
	}
	checks := make([]headgate.Check, len(parts))
	for i := range parts {
		p := &parts[i]
		if p.err != nil || p.charge.AdjustCost != nil {
			return false
		}
		checks[i] = headgate.Check{Limiter: p.limiter, Key: p.key, Cost: p.cost}
	}
	return root.TakeNow(ctx, checks)
}

// make makes a charge: it waits for units, or takes slots without waiting. The units of
// a charge can be corrected as long as a later charge may fail, which is not the case for
// the last one.
func (s *clientHolds) make(ctx context.Context, p *clientPart, last bool) error {
	switch {
	case p.err != nil:
		return p.err
	case p.limiter.OnlyHolds():
		return s.takeSlots(ctx, p)
	case p.charge.AdjustCost != nil:
		h, err := s.waitHold(ctx, p)
		if h != nil {
			s.holds = append(s.holds, clientHold{h, &p.charge.Charge, p.cost})
		}
		return err
	case last || p.cost == 0 || !p.charge.canHold:
		return p.limiter.WaitN(ctx, p.key, p.cost)
	}
	h, err := s.waitHold(ctx, p)
	if errors.Is(err, headgate.ErrUnsupported) {
		return p.limiter.WaitN(ctx, p.key, p.cost)
	}
	if h != nil {
		s.charged = append(s.charged, h)
	}
	return err
}

// takeSlots opens a hold of slots, or returns [ErrNoSlot].
func (s *clientHolds) takeSlots(ctx context.Context, p *clientPart) error {
	h, err := p.limiter.Hold(ctx, p.key, p.cost, s.alive.TTL())
	if err != nil {
		return err
	}
	if !h.OK() {
		return ErrNoSlot
	}
	s.alive.Add(h)
	s.holds = append(s.holds, clientHold{h, &p.charge.Charge, p.cost})
	return nil
}

func (s *clientHolds) waitHold(ctx context.Context, p *clientPart) (*headgate.Hold, error) {
	h, err := root.WaitHold(ctx, p.limiter, p.key, p.cost, s.alive.TTL())
	if h != nil {
		s.alive.Add(h)
	}
	return h, err
}

// sent makes the charges that do not depend on the end of the call final. It returns s,
// or nil if no hold is left.
func (s *clientHolds) sent(ctx context.Context) *clientHolds {
	if len(s.charged) > 0 {
		s.settle(ctx, s.charged)
		s.charged = nil
	}
	if len(s.holds) == 0 {
		return nil
	}
	return s
}

// settle ends holds with what they have charged.
func (s *clientHolds) settle(ctx context.Context, holds []*headgate.Hold) {
	ctx, done := turn.Detached(ctx)
	defer done()
	for _, h := range holds {
		s.alive.Remove(h)
	}
	root.SettleHolds(ctx, holds)
}

// undo cancels all holds, because the call is not sent: the charges have the same effect
// as if they had not been made.
func (s *clientHolds) undo(ctx context.Context) {
	s.once.Do(func() {
		for _, h := range s.charged {
			s.holds = append(s.holds, clientHold{Hold: h})
		}
		s.commit(ctx, make([]int64, len(s.holds)))
	})
}

// end ends the holds of a call that has ended. Only the first call has an effect. After
// an error, slots are available at the deadline of the hold.
func (s *clientHolds) end(ctx context.Context, response func() Response) {
	if s != nil {
		s.once.Do(func() { s.adjust(ctx, response()) })
	}
}

// adjust ends the holds with the final cost of each charge. Charges that do not change
// need no event.
func (s *clientHolds) adjust(ctx context.Context, resp Response) {
	costs := make([]int64, len(s.holds))
	for i := range s.holds {
		costs[i] = s.holds[i].cost
	}
	defer s.commit(ctx, costs) // also if AdjustCost panics
	for i := range s.holds {
		if h := &s.holds[i]; h.charge.AdjustCost != nil {
			resp.Charged = h.cost
			costs[i] = max(h.charge.AdjustCost(ctx, resp), 0)
		}
	}
}

// commit ends all holds with the given costs. Rates whose cost does not change cause no
// event for the observer.
func (s *clientHolds) commit(ctx context.Context, costs []int64) {
	detached, done := turn.Detached(ctx)
	defer done()
	var unchanged []*headgate.Hold
	for i := range s.holds {
		h := &s.holds[i]
		if h.charge != nil && h.charge.AdjustCost != nil && costs[i] == h.cost {
			unchanged = append(unchanged, h.Hold)
			continue
		}
		s.alive.Remove(h.Hold)
		_, _ = h.Commit(detached, costs[i]) // the observer receives the error
	}
	s.settle(ctx, unchanged)
}

// during sends a call, and ends its holds when send has returned or panicked. reply is
// the message from the server.
func (s *clientHolds) during(ctx context.Context, call Call, reply any, send func() error) error {
	if s == nil {
		return send()
	}
	out := unfinished(call)
	defer func() { s.end(ctx, func() Response { return out }) }()
	out.Requests = 1
	err := send()
	if out.finish(err); err == nil {
		out.Responses, out.Message = 1, reply
	}
	return err
}
