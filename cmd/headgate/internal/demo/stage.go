package demo

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/headgate/headgate"
)

// stage is what decides at a time: for each track and algorithm the limiters. It does not change; changed settings make a new
// one, over the same keys in the same store.
type stage struct {
	settings Settings
	tracks   []track
	edges    *headgate.Limiter // tells when a window ends, by the store's clock; nil if the store cannot
}

// track is one of the things that are compared under every algorithm: a client, or a set of servers.
type track struct {
	name  string
	key   string
	gates []*gate // one for each algorithm
}

// gate is an algorithm on a track.
type gate struct {
	servers []*headgate.Limiter // asked in turn; none if the store cannot hold the algorithm
	states  []*headgate.Limiter // one for each state that there is: servers over one store have one
	turn    atomic.Uint64
	refused string // why there is no server
}

// next is the server whose turn it is.
func (g *gate) next() *headgate.Limiter {
	return g.servers[(g.turn.Add(1)-1)%uint64(len(g.servers))]
}

// part is what a track is made of: a name, what stands behind the page's key, and the stores of its servers.
type part struct {
	name   string
	suffix string
	stores []headgate.Store
}

// layout makes the parts of a stage. Plain traffic has one.
type layout []part

func plainLayout(store headgate.Store) layout {
	return layout{{name: "requests", stores: []headgate.Store{store}}}
}

// build makes the stage of a layout. What a store cannot hold is noted on its gate.
func (l layout) build(settings Settings, store headgate.Store) *stage {
	st := &stage{settings: settings}
	for _, p := range l {
		t := track{name: p.name, key: settings.Key + p.suffix}
		for _, a := range algorithms() {
			t.gates = append(t.gates, p.gate(settings.policy(a)))
		}
		st.tracks = append(st.tracks, t)
	}
	edge := settings.policy(headgate.FixedWindow)
	edge.Name = policyName + "-edge"
	edge.Limits[0].Rate = headgate.MaxUnits
	st.edges, _ = headgate.New(store, edge, nil) // without it no edge is drawn
	return st
}

func (p part) gate(policy headgate.Policy) *gate {
	g := &gate{}
	seen := make(map[headgate.Store]bool)
	for _, store := range p.stores {
		limiter, err := headgate.New(store, policy, nil)
		if err != nil {
			return &gate{refused: reason(err)}
		}
		g.servers = append(g.servers, limiter)
		if !seen[store] {
			seen[store] = true
			g.states = append(g.states, limiter)
		}
	}
	return g
}

// reset makes the keys of all tracks as if never used. The first error is returned when all have been tried.
func (st *stage) reset(ctx context.Context) (first error) {
	for _, t := range st.tracks {
		for _, g := range t.gates {
			for _, state := range g.states {
				if _, err := state.Reset(ctx, t.key); err != nil && first == nil {
					first = err
				}
			}
		}
	}
	return first
}

// reason is an error as the page says it: why nothing could be decided, without addresses.
func reason(err error) string {
	switch {
	case errors.Is(err, headgate.ErrUnsupported):
		return "this store cannot hold it"
	case errors.Is(err, headgate.ErrStoreUnavailable):
		return "the store is away"
	case errors.Is(err, headgate.ErrStoreFull):
		return "the store is full"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cut off"
	default:
		return "nothing could be decided"
	}
}
