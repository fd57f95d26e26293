package memcachedstore

import (
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

// takeInOneRound decides several requests on both keys in one round, like calls that
// arrive while another round is in progress.
func takeInOneRound(s *Store, b *bound, costs ...int64) (allowed []bool) {
	keys := []digest{b.scope.digest("left"), b.scope.digest("right")}
	slices.SortFunc(keys, digest.compare)
	var jobs []*job
	for _, n := range costs {
		q := &multiKey{ops: []multiOp{{b, 0, n}, {b, 1, n}}, decisions: make([]headgate.Decision, 2)}
		jobs = append(jobs, &job{now: testInstant, multi: q, done: make(chan struct{})})
	}
	s.scheduler.pending += len(jobs)
	s.runRound(s.newGroup(jobs[0], keys), jobs)
	for _, j := range jobs {
		allowed = append(allowed, j.err == nil && !j.denied())
	}
	return allowed
}

func mustRefund(t *testing.T, b *bound, key string, n int64) {
	t.Helper()
	if _, err := b.Apply(t.Context(), testInstant, key, headgate.Refund, n); err != nil {
		t.Fatal(err)
	}
}

// Between the two writes of several requests on two keys another process changes both.
// The refund of the first key is exactly what was denied, and nothing is allowed
// without being spent.
func TestUndoAfterConcurrentChange(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, c := range []struct {
		name          string
		before        int64 // taken from the second key beforehand
		between       func(t *testing.T, b *bound, first, second string)
		again         int64 // taken from the first key during the refund
		less          int64 // refunded to it before
		costs         []int64
		allowed       []bool
		first, second int64 // left at the end
	}{
		{"one denied", 0, func(t *testing.T, b *bound, first, second string) {
			mustTake(t, b, testInstant, first, 1)
			mustTake(t, b, testInstant, second, 6)
		}, 0, 0, []int64{3, 2}, []bool{true, false}, 6, 1},
		{"one denied, other process refunded", 0, func(t *testing.T, b *bound, first, second string) {
			mustTake(t, b, testInstant, first, 1)
			mustTake(t, b, testInstant, second, 6)
		}, 0, 1, []int64{3, 2}, []bool{true, false}, 7, 1},
		{"both denied, conflict during undo", 0, func(t *testing.T, b *bound, first, second string) {
			mustTake(t, b, testInstant, first, 1)
			mustTake(t, b, testInstant, second, 10)
		}, 2, 0, []int64{3, 2}, []bool{false, false}, 7, 0},
		{"one denied before a refund", 6, func(t *testing.T, b *bound, first, second string) {
			mustTake(t, b, testInstant, first, 1)
			mustRefund(t, b, second, 6)
		}, 0, 0, []int64{3, 2}, []bool{true, false}, 6, 7},
	} {
		for _, a := range allAlgorithms() {
			if a.Queues() {
				continue
			}
			t.Run(c.name+" "+string(a), func(t *testing.T) {
				scope := t.Name()
				other := mustBind(t, mustNew(t, nil, server.Addr()), scope, a, "10/1h")
				first, second := orderedKeys(other)
				mustTake(t, other, testInstant, second, c.before)
				writes, backs, reads := 0, 0, 0
				s := newTappedStore(t, nil, server.Addr(), func(verb, name string) {
					back := writes >= 2 && name == other.scope.digest(first).name()
					writing := verb == "add" || verb == "cas"
					switch {
					case back && writing:
						if backs++; backs == 1 && c.again > 0 {
							mustTake(t, other, testInstant, first, c.again)
						}
					case back:
						if reads++; reads == 2 { // the first read found it changed
							mustRefund(t, other, first, c.less)
						}
					case writing:
						if writes++; writes == 2 {
							c.between(t, other, first, second)
						}
					}
				})
				if got := takeInOneRound(s, mustBind(t, s, scope, a, "10/1h"), c.costs...); !slices.Equal(got, c.allowed) {
					t.Errorf("%v of both: got allowed %v want %v", c.costs, got, c.allowed)
				}
				if got := remaining(t, other, testInstant, first); got != c.first {
					t.Errorf("the key written first: got %d remaining want %d", got, c.first)
				}
				if got := remaining(t, other, testInstant, second); got != c.second {
					t.Errorf("the key written second: got %d remaining want %d", got, c.second)
				}
			})
		}
	}
}
