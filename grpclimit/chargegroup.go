package grpclimit

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
)

// boundCharge is a charge whose policy is bound to the store.
type boundCharge struct {
	Charge
	bound    admission.Charge
	variants *admission.Variants // nil if Limits is nil
}

// of returns the bound charge with the limits of a call.
func (c *boundCharge) of(ctx context.Context, call Call) (*admission.Charge, error) {
	if c.variants == nil {
		return &c.bound, nil
	}
	bound, err := c.variants.Of(c.Limits(ctx, call))
	if err != nil {
		return nil, fmt.Errorf("grpclimit: Limits of policy %q: %w", c.Policy.Name, err)
	}
	return bound, nil
}

// name returns the policy's name as it is sent to clients: “default” if it is empty,
// and with “_” for bytes that are not UTF-8, because gRPC messages must be UTF-8.
func (c *boundCharge) name() string {
	if c.Policy.Name == "" {
		return "default"
	}
	return strings.ToValidUTF8(c.Policy.Name, "_")
}

// group is a set of charges that are made in one store operation: all charges for a
// unary call, the charges for opening a stream, or the charges for one message of a
// stream.
type group struct {
	core        *admission.Core
	writer      *httpfields.Writer
	onlyDenials bool // whether fields are sent with denials only
	addresses   *addresses
	charges     []*boundCharge
	sets        *admission.FieldSets
}

// setFields prepares the header fields for the charges of the group.
func (g *group) setFields() {
	charges := make([]admission.Charge, len(g.charges))
	for i, c := range g.charges {
		charges[i] = c.bound
	}
	g.sets = admission.NewFieldSets(g.writer, charges)
}

// requestState is the state of one call or message while it is charged.
type requestState struct {
	admission.Request
	mask    uint32         // bit i is set if charge i of the group applies
	varies  bool           // whether a charge that applies has a Limits function
	adjusts bool           // whether a charge that applies has an AdjustCost function
	charges []*boundCharge // the charges that apply, one for each part of the request
	peer    client
	text    strings.Builder // memory for the values of the header fields
}

var requestStates = sync.Pool{New: func() any { return new(requestState) }}

// release clears q, so that it retains no keys, and returns it to the pool.
func (q *requestState) release() {
	q.Reset()
	clear(q.charges)
	*q = requestState{Request: q.Request, charges: q.charges[:0]}
	requestStates.Put(q)
}

// collect adds the charges that apply to call to q. It returns an error only if a cost
// is below zero or a limit is invalid.
func (g *group) collect(ctx context.Context, call Call, q *requestState) error {
	q.peer.addresses = g.addresses
	q.Core = g.core
	for i, c := range g.charges {
		if !c.applies(ctx, call) {
			continue
		}
		cost := c.cost(ctx, call)
		if cost < 0 {
			return fmt.Errorf("%w: cost of policy %q is %d; must be 0 or more (0 peeks)", headgate.ErrInvalidCost, c.Policy.Name, cost)
		}
		q.mask |= 1 << i
		q.charges = append(q.charges, c)
		bound, err := c.of(ctx, call)
		if err != nil {
			return err
		}
		q.varies = q.varies || c.variants != nil
		q.adjusts = q.adjusts || c.AdjustCost != nil
		q.Charge(bound, c.Key.compiled.Text(keyRequest{ctx, call, &q.peer}), cost)
	}
	return nil
}
