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

// boundCharge is a charge that is bound to the store.
type boundCharge struct {
	Charge
	bound admission.Charge
}

// name returns the policy's name as clients see it. gRPC messages must be valid UTF-8.
func (c *boundCharge) name() string {
	if c.Policy.Name == "" {
		return "default"
	}
	return strings.ToValidUTF8(c.Policy.Name, "_")
}

// group is the charges that are made together: all of them for a unary call, or the
// charges for opening a stream, or the charges for each message of a stream.
type group struct {
	core        *admission.Core
	writer      *httpfields.Writer
	onlyDenials bool // fields are sent with denials only
	addresses   *addresses
	charges     []*boundCharge
	sets        *admission.FieldSets
}

// setFields prepares the header fields of the group's charges.
func (g *group) setFields() {
	charges := make([]admission.Charge, len(g.charges))
	for i, c := range g.charges {
		charges[i] = c.bound
	}
	g.sets = admission.NewFieldSets(g.writer, charges)
}

// requestState is one call or message and the charges that apply to it.
type requestState struct {
	admission.Request
	mask    uint32         // bit i is set if charge i applies
	charges []*boundCharge // one for each part of the request
	peer    client
	text    strings.Builder // the values of the fields
}

var requestStates = sync.Pool{New: func() any { return new(requestState) }}

// release returns q to the pool, without keys.
func (q *requestState) release() {
	q.Reset()
	clear(q.charges)
	*q = requestState{Request: q.Request, charges: q.charges[:0]}
	requestStates.Put(q)
}

// collect adds the charges that apply to call to q. It returns an error only for a cost
// below zero.
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
		q.Charge(&c.bound, c.Key.compiled.Text(keyRequest{ctx, call, &q.peer}), cost)
	}
	return nil
}
