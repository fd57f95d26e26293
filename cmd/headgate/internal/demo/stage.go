package demo

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/headgate/headgate"
)

// stage contains the limiters for each track and algorithm. It is immutable; changed
// settings create a new stage with the same keys in the same store.
type stage struct {
	settings Settings
	tracks   []track
	edges    *headgate.Limiter // reports the end of a window by the store's clock; nil if the store does not support it
}

// track is one of the compared things: a client, or a set of servers.
type track struct {
	name  string
	key   string
	gates []*gate // one for each algorithm
}

// gate is an algorithm on a track.
type gate struct {
	servers []*headgate.Limiter // used in turn; empty if the store does not support the algorithm
	states  []*headgate.Limiter // one for each state: servers with the same store share one
	turn    atomic.Uint64
	refused string // why there is no server
}

// next returns the server of the next request.
func (g *gate) next() *headgate.Limiter {
	return g.servers[(g.turn.Add(1)-1)%uint64(len(g.servers))]
}

// part describes a track: a name, the suffix of the key, and the stores of its servers.
type part struct {
	name   string
	suffix string
	stores []headgate.Store
}

// layout returns the parts of a stage. Ordinary traffic has one.
type layout []part

func plainLayout(store headgate.Store) layout {
	return layout{{name: "requests", stores: []headgate.Store{store}}}
}

// build returns the stage of a layout. A gate records if the store does not support its
// algorithm.
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
	st.edges, _ = headgate.New(store, edge, nil) // on error, no window ends are drawn
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

// reset resets the keys of all tracks. It tries all and returns the first error.
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

// reason returns the reason of an error for the page, without addresses.
func reason(err error) string {
	switch {
	case errors.Is(err, headgate.ErrUnsupported):
		return "not supported by this store"
	case errors.Is(err, headgate.ErrStoreUnavailable):
		return "store unavailable"
	case errors.Is(err, headgate.ErrStoreFull):
		return "store full"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cut off"
	default:
		return "nothing could be decided"
	}
}
