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

// rules is a charge, bound to the store.
type rules struct {
	Charge
	bound admission.Charge
}

// name is what clients know the policy by; messages of gRPC hold valid UTF-8 alone.
func (r *rules) name() string {
	if r.Policy.Name == "" {
		return "default"
	}
	return strings.ToValidUTF8(r.Policy.Name, "_")
}

// group is the charges that are made together: all, those made when a stream opens, or those made for each of its messages.
type group struct {
	core    *admission.Core
	writer  *httpfields.Writer
	silent  bool // allowed calls are told nothing
	address *addresses
	rules   []*rules
	sets    *admission.FieldSets
}

// setFields prepares the header fields of the group's rules.
func (g *group) setFields() {
	charges := make([]admission.Charge, len(g.rules))
	for i, r := range g.rules {
		charges[i] = r.bound
	}
	g.sets = admission.NewFieldSets(g.writer, charges)
}

// requestState is one call, or one message of it, and its charges. Charges whose When is false are not in it.
type requestState struct {
	admission.Request
	which uint32   // the bit of each rule that holds
	rules []*rules // those, one for each part of the request
	peer  client
	text  strings.Builder // of the fields
}

var requestStates = sync.Pool{New: func() any { return new(requestState) }}

// release returns q to the pool, without keys.
func (q *requestState) release() {
	q.Reset()
	clear(q.rules)
	*q = requestState{Request: q.Request, rules: q.rules[:0]}
	requestStates.Put(q)
}

// collect fills in what call is charged. Only a cost below zero is an error.
func (g *group) collect(ctx context.Context, call Call, q *requestState) error {
	q.peer.from = g.address
	q.Core = g.core
	for i, r := range g.rules {
		if !r.holds(ctx, call) {
			continue
		}
		cost := r.cost(ctx, call)
		if cost < 0 {
			return fmt.Errorf("%w: cost of policy %q is %d; must be 0 or more (0 peeks)", headgate.ErrInvalidCost, r.Policy.Name, cost)
		}
		q.which |= 1 << i
		q.rules = append(q.rules, r)
		q.Charge(&r.bound, r.Key.ready.Text(keyRequest{ctx, call, &q.peer}), cost)
	}
	return nil
}
