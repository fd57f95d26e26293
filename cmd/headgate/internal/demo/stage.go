package demo

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/headgate/headgate"
)

// stage holds the limiters for each track and algorithm. It does not change: changed
// settings create a new stage that uses the same keys in the same store.
type stage struct {
	settings Settings
	tracks   []track
	// Finds the end of the current window by the store's clock; nil if the store does
	// not support this.
	edges *headgate.Limiter
}

// track is one of the things that a scenario compares: a client, or a group of servers.
type track struct {
	name  string
	key   string
	gates []*gate // one gate for each algorithm
}

// gate holds the limiters for one algorithm on one track.
type gate struct {
	servers []*headgate.Limiter // used in turn for the requests; empty if the store does not support the algorithm
	states  []*headgate.Limiter // one limiter for each separate state; servers with the same store share a state
	turn    atomic.Uint64
	refused string // reason why servers is empty; empty if it is not
}

// next returns the limiter of the server that gets the next request.
func (g *gate) next() *headgate.Limiter {
	return g.servers[(g.turn.Add(1)-1)%uint64(len(g.servers))]
}

// part is the description of a track: its name, the suffix of its key, and the stores
// of its servers.
type part struct {
	name   string
	suffix string
	stores []headgate.Store
}

// layout is the list of the tracks on a page. Outside of scenarios, there is one track.
type layout []part

func plainLayout(store headgate.Store) layout {
	return layout{{name: "requests", stores: []headgate.Store{store}}}
}

// build returns the stage for a layout. If the store does not support an algorithm, the
// stage has a gate that contains the reason.
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
	st.edges, _ = headgate.New(store, edge, nil) // after an error, the page shows no ends of windows
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

// reset resets the keys of all tracks. After an error it continues with the other keys.
// It returns the first error.
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

// reason returns the error message for the page. It contains no network addresses.
func reason(err error) string {
	switch {
	case errors.Is(err, headgate.ErrUnsupported):
		return "not supported by this store"
	case errors.Is(err, headgate.ErrStoreUnavailable):
		return "store unavailable"
	case errors.Is(err, headgate.ErrStoreFull):
		return "store full"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled"
	default:
		return "no decision"
	}
}
