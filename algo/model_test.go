package algo_test

import (
	"reflect"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/storetest/model"
)

// TestStepEqualsModel compares the Go implementation with the definition in math/big
// rationals over the whole accepted range, with clocks that go back and limit changes.
// The definition does not cover a window after a change of its period.
func TestStepEqualsModel(t *testing.T) {
	lives := 2_000
	if raceDetector || testing.Short() {
		lives = 200
	}
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		d := newGenerator(*seedFlag, 700)
		for range lives {
			k, m := newKey(a, d.limit(a)), model.NewKey(a.Name)
			now := d.instant()
			last := headgate.Decision{Limit: k.limit.Capacity(), Remaining: k.limit.Capacity()}
			for range 30 {
				// The model counts the remaining units in an int64, even if negative.
				now = max(now-1e12, d.after(now, k.limit, last))
				if d.oneIn(25) {
					if c := d.changed(a, k.limit); c.Period == k.limit.Period && c.Calendar == k.limit.Calendar || canReserve(a) || a.NewLog != nil {
						k.setLimit(c)
					}
				}
				before := k.String()
				s := step{verb: pick(d, take, take, take, peek, refund), t: now, n: d.cost(last.Limit, last.Remaining)}
				last = k.run(s)
				if want := modelDecision(m, k.limit, s); !reflect.DeepEqual(last, want) {
					t.Fatalf("seed %d: %s: %v\n got %+v\nwant %+v", *seedFlag, before, s, last, want)
				}
				// A store may delete an unused key before the clock goes back.
				if k.resetAt(now) <= now {
					k.forget()
					m = model.NewKey(a.Name)
				}
			}
		}
	})
}

func modelDecision(m *model.Key, l headgate.Limit, s step) headgate.Decision {
	switch s.verb {
	case take:
		return m.Take(l, s.t, s.n)
	case peek:
		return m.Peek(l, s.t, s.n)
	default:
		return m.Refund(l, s.t, s.n)
	}
}
