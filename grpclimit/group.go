package grpclimit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
)

// rules is a charge, bound to the store.
type rules struct {
	Charge
	bound  admission.Charge
	limits []httpfields.Limit // as clients know them
}

// name is what clients know the policy by; messages of gRPC hold valid UTF-8 alone.
func (r *rules) name() string {
	if r.Policy.Name == "" {
		return "default"
	}
	return strings.ToValidUTF8(r.Policy.Name, "_")
}

// mixes reports whether texts that mean different things would name the same state.
func (r *rules) mixes(other *rules) bool {
	return r.bound.Shares(&other.bound) && !r.Key.ready.Equal(other.Key.ready)
}

// bind makes a charge ready for use. On a server a policy without a name counts apart for each sort of key; a client's keys are its own
// program's.
func bind(binder *admission.Binder, c Charge, client bool) (*rules, error) {
	sort := ""
	if !client {
		sort = c.Key.ready.Sort()
	}
	bound, err := binder.Bind(c.Policy, sort)
	if err != nil {
		return nil, err
	}
	r := &rules{Charge: c, bound: bound}
	for _, l := range bound.Limits {
		r.limits = append(r.limits, httpfields.Limit{
			Name: l.Name, Limit: l.Rule.Limit, Algorithm: l.Rule.Algorithm, AtOnce: l.Bound.Limit(),
		})
	}
	return r, nil
}

// group is the charges that are made together: all, those made when a stream opens, or those made for each of its messages.
type group struct {
	core    *admission.Core
	writer  *httpfields.Writer
	silent  bool // allowed calls are told nothing
	address *addresses
	rules   []*rules
	sets    sync.Map // uint32, which of the rules hold → *httpfields.Set
	kept    atomic.Int64
}

// mostSets bounds how many combinations of charges are kept ready.
const mostSets = 256

// set is the limits of those rules whose bit is set.
func (g *group) set(which uint32) *httpfields.Set {
	if s, ok := g.sets.Load(which); ok {
		return s.(*httpfields.Set)
	}
	var limits []httpfields.Limit
	for i, r := range g.rules {
		if which&(1<<i) != 0 {
			limits = append(limits, r.limits...)
		}
	}
	s := g.writer.Set(limits...)
	if g.kept.Add(1) <= mostSets {
		g.sets.Store(which, s)
	}
	return s
}

// question is what one call, or one message of it, is charged. Charges that do not hold are not in it.
type question struct {
	admission.Request
	which uint32   // the bit of each rule that holds
	rules []*rules // those, one for each part of the request
	peer  client
	text  strings.Builder // of the fields
}

var questions = sync.Pool{New: func() any { return new(question) }}

// release returns q for others to use, without anybody's keys.
func (q *question) release() {
	q.Reset()
	clear(q.rules)
	*q = question{Request: q.Request, rules: q.rules[:0]}
	questions.Put(q)
}

// ask fills in what call is charged. Only a cost below zero is an error.
func (g *group) ask(ctx context.Context, call Call, q *question) error {
	q.peer.from = g.address
	q.Core = g.core
	for i, r := range g.rules {
		if !r.holds(ctx, call) {
			continue
		}
		cost := r.cost(ctx, call)
		if cost < 0 {
			return fmt.Errorf("%w: %d, of policy %q; accepted are whole numbers from 0", headgate.ErrInvalidCost, cost, r.Policy.Name)
		}
		q.which |= 1 << i
		q.rules = append(q.rules, r)
		q.Charge(&r.bound, r.Key.ready.Text(asker{ctx, call, &q.peer}), cost)
	}
	return nil
}
