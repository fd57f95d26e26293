package lease_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// mistaken is a store with a mistake in the protocol, between a node and the network.
type mistaken struct {
	headgate.LeaseStore
	mu    sync.Mutex
	units map[headgate.HoldID]int64 // of the leases that were granted
	sent  map[headgate.HoldID]bool
	apply func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error)
}

func (m *mistaken) ApplyLease(ctx context.Context, _ headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	result, err := m.apply(m, ctx, op)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sent[op.ID] = true; err == nil {
		m.units[op.ID] = result.Units
	}
	return result, err
}

func (m *mistaken) next(ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	return m.LeaseStore.ApplyLease(ctx, headgate.StoreClock, op)
}

// repeated reports whether op was sent before, and returns the units of op.Previous.
func (m *mistaken) repeated(op headgate.LeaseOp) (again bool, previous int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent[op.ID], m.units[op.Previous]
}

// mistakes are the planted mistakes, by what is wrong.
var mistakes = map[string]func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error){
	"no margin for clock drift": func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error) {
		result, err := m.next(ctx, op)
		result.TTL = result.TTL*100/99 + 2*time.Microsecond
		return result, err
	},
	"validity from the reply": func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error) {
		sent := time.Now()
		result, err := m.next(ctx, op)
		result.TTL += time.Since(sent)
		return result, err
	},
	"spent units are not reported": func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error) {
		spent := op.Spent
		op.Spent = 0
		result, err := m.next(ctx, op)
		if !result.PreviousOpen {
			return result, err
		}
		result.Units -= spent // the node counts them as spent
		return result, err
	},
	"a repeated call grants twice": func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error) {
		again, _ := m.repeated(op)
		result, err := m.next(ctx, op)
		if again && err == nil {
			result.Units += op.Want
		}
		return result, err
	},
	"units of an expired lease are carried": func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error) {
		_, units := m.repeated(op)
		result, err := m.next(ctx, op)
		if err == nil && !result.PreviousOpen && units > 0 && result.Units > 0 {
			result.PreviousOpen = true
			result.Units += units - op.Spent
		}
		return result, err
	},
	"a lost reply refunds the units": func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error) {
		result, err := m.next(ctx, op)
		if err != nil {
			op.Bound.(*linkBound).refund(op.Key, op.Want)
		}
		return result, err
	},
	"an expired lease returns its units": func(m *mistaken, ctx context.Context, op headgate.LeaseOp) (headgate.LeaseResult, error) {
		_, units := m.repeated(op)
		result, err := m.next(ctx, op)
		if err == nil && !result.PreviousOpen && units > 0 {
			op.Bound.(*linkBound).refund(op.Key, units)
		}
		return result, err
	},
}

// refund refunds units directly in the store.
func (b *linkBound) refund(key string, units int64) {
	_, _ = b.Bound.Apply(context.Background(), headgate.StoreClock, key, headgate.Refund, units)
}

// TestSimulationFindsMistakes plants mistakes into the protocol, one after another. The
// simulation must find each of them.
func TestSimulationFindsMistakes(t *testing.T) {
	t.Parallel()
	for name, apply := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(40) {
				for _, a := range []headgate.Algorithm{headgate.FixedWindow, headgate.TokenBucket} {
					s := newSimulation(a, seed)
					s.slowClocks, s.resets, s.duration = true, false, 5*time.Second
					s.limit = headgate.MustParseLimit("50000/1s")
					s.load = anyLoad(perSecond(s.limit))
					s.lease = headgate.LeaseSettings{Share: 50, TTL: time.Second}
					s.mistake = func(inner headgate.LeaseStore) headgate.LeaseStore {
						return &mistaken{LeaseStore: inner, apply: apply, units: map[headgate.HoldID]int64{}, sent: map[headgate.HoldID]bool{}}
					}
					if err := judge(a, s.limit, s.run(t).log); err != nil {
						t.Logf("%s, seed %d: %v", a, seed, err)
						return
					}
				}
			}
			t.Error("the simulation did not find the mistake")
		})
	}
}
