package fallback_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
)

// nodesStore is a store with nodes: the node of a key is its first byte, unless move
// returns another one. The nodes in hung do not reply.
type nodesStore struct {
	*faultyStore
	move atomic.Pointer[func(node string) string]
	hung atomic.Pointer[string]
}

func newNodesStore() *nodesStore {
	s := &nodesStore{faultyStore: newFaultyStore()}
	s.faultyStore.set(func(ctx context.Context, key string) error {
		if hung := s.hung.Load(); hung != nil && s.node(key) == *hung {
			return hangs(ctx, key)
		}
		time.Sleep(100 * time.Microsecond)
		return nil
	})
	return s
}

func (s *nodesStore) node(key string) string {
	if move := s.move.Load(); move != nil {
		return (*move)(key[:1])
	}
	return key[:1]
}

func (s *nodesStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.faultyStore.Bind(rule)
	if err != nil {
		return nil, err
	}
	return &nodesBound{b.(*faultyBound), s}, nil
}

func (s *nodesStore) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	bare := make([]headgate.Op, len(ops))
	for i, op := range ops {
		bare[i] = headgate.Op{Bound: op.Bound.(*nodesBound).faultyBound, Key: op.Key, Cost: op.Cost}
	}
	return s.faultyStore.ApplyAll(ctx, now, bare, peek, decisions)
}

type nodesBound struct {
	*faultyBound
	nodes *nodesStore
}

func (b *nodesBound) Node(key string) string { return b.nodes.node(key) }

// nodesTest is a store with nodes in a synctest bubble.
type nodesTest struct {
	*fakeTimeTest
	nodes *nodesStore
}

func testNodes(t *testing.T, test func(o *nodesTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newNodesStore()
		o := &nodesTest{&fakeTimeTest{t: t, inner: s.faultyStore, recorder: &eventRecorder{}}, s}
		o.store = around(t, s, &fallback.Options{Observer: o.recorder})
		o.limit = limiter(t, o.store, "", "1000000/1s", headgate.FailOpen)
		test(o)
	})
}

// takeRepeatedly sends requests with a key for some time, and returns the last reason.
func (o *nodesTest) takeRepeatedly(key string, d time.Duration) (last headgate.StoreErrorReason) {
	for began := time.Now(); time.Since(began) < d; time.Sleep(time.Millisecond) {
		last = o.take(key)
	}
	return last
}

func TestBreakerPerNode(t *testing.T) {
	t.Parallel()
	testNodes(t, func(o *nodesTest) {
		hung := "a"
		o.nodes.hung.Store(&hung)
		o.takeRepeatedly("a1", time.Second)
		for range 1000 {
			if got := o.take("a2"); got != headgate.ReasonBreakerOpen {
				o.t.Fatalf("a key of the node that hangs: got %v want breaker open", got)
			}
			if got := o.take("b"); got != headgate.ReasonNone {
				o.t.Fatalf("a key of another node: got %v want a decision of the store", got)
			}
			time.Sleep(time.Millisecond)
		}
		o.requireEvents("unavailable: timed out")
		if got := o.recorder.nodes(); fmt.Sprint(got) != "[a]" {
			o.t.Errorf("got events of the nodes %q want a", got)
		}
		o.nodes.hung.Store(nil)
		time.Sleep(250 * time.Millisecond)
		o.takeRepeatedly("a1", 10*time.Millisecond)
		o.requireEvents("unavailable: timed out", "recovered")
	})
}

// If all nodes hang and only one of them recovers, its keys are decided again.
func TestOneOfTheNodesRecovers(t *testing.T) {
	t.Parallel()
	testNodes(t, func(o *nodesTest) {
		a, b := "a", "b"
		for range 20 {
			o.nodes.hung.Store(&b)
			o.take("b")
			o.nodes.hung.Store(&a)
			o.take("a")
		}
		o.requireEvents("unavailable: timed out", "unavailable: timed out")
		time.Sleep(250 * time.Millisecond)
		if got := o.take("b"); got != headgate.ReasonNone {
			o.t.Errorf("the node that recovered: got %v want a decision of the store", got)
		}
		if got := o.take("a"); got != headgate.ReasonBreakerOpen {
			o.t.Errorf("the node that hangs: got %v want breaker open", got)
		}
	})
}

// After a failover the keys of the old node are on another node. The breaker of the old
// node does not stay open.
func TestBreakerOfNodeThatIsGone(t *testing.T) {
	t.Parallel()
	testNodes(t, func(o *nodesTest) {
		hung := "a"
		o.nodes.hung.Store(&hung)
		o.takeRepeatedly("a", time.Second)
		o.requireEvents("unavailable: timed out")
		move := func(node string) string {
			if node == "a" {
				return "c"
			}
			return node
		}
		o.nodes.move.Store(&move)
		if got := o.take("a"); got != headgate.ReasonNone {
			o.t.Errorf("a key that has moved to another node: got %v want a decision of the store", got)
		}
		time.Sleep(time.Second)
		o.requireEvents("unavailable: timed out", "recovered")
		o.nodes.move.Store(nil)
		if got := o.takeRepeatedly("a", time.Second); got != headgate.ReasonBreakerOpen {
			o.t.Errorf("a key that has moved back to the node that hangs: got %v want breaker open", got)
		}
		o.requireEvents("unavailable: timed out", "recovered", "unavailable: timed out")
	})
}

// A request on keys of several nodes fails if one of them hangs. The other nodes do not
// count as failed.
func TestRequestOnSeveralNodes(t *testing.T) {
	t.Parallel()
	testNodes(t, func(o *nodesTest) {
		hung := "a"
		o.nodes.hung.Store(&hung)
		both := func() headgate.StoreErrorReason {
			d, err := headgate.AllowAll(background, headgate.Check{Limiter: o.limit, Key: "a", Cost: 1}, headgate.Check{Limiter: o.limit, Key: "b", Cost: 1})
			if err != nil {
				o.t.Fatal(err)
			}
			return d.Degraded
		}
		for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
			both()
		}
		if got := both(); got != headgate.ReasonBreakerOpen {
			o.t.Errorf("both nodes: got %v want breaker open", got)
		}
		if got := o.take("b"); got != headgate.ReasonNone {
			o.t.Errorf("the other node: got %v want a decision of the store", got)
		}
		o.requireEvents("unavailable: timed out")
		o.nodes.hung.Store(nil)
		time.Sleep(250 * time.Millisecond)
		for range 3 {
			if got := both(); got != headgate.ReasonNone {
				o.t.Errorf("after the recovery: got %v want a decision of the store", got)
			}
		}
		o.requireEvents("unavailable: timed out", "recovered")
	})
}

// The nodes of a store may be replaced again and again. Their breakers are dropped.
func TestBreakersOfManyNodes(t *testing.T) {
	t.Parallel()
	testNodes(t, func(o *nodesTest) {
		name := ""
		move := func(string) string { return name }
		o.nodes.move.Store(&move)
		for i := range 3000 {
			name = fmt.Sprint("node ", i)
			o.nodes.hung.Store(&name)
			o.take("k")
			o.nodes.hung.Store(nil)
			if i%100 == 0 {
				time.Sleep(2 * time.Minute)
			}
			if got := o.take("k"); got != headgate.ReasonNone {
				o.t.Fatalf("node %d: got %v want a decision of the store", i, got)
			}
		}
		if n := fallback.Breakers(o.store); n > 200 {
			o.t.Errorf("%d breakers remain of 3000 nodes want those of the last two minutes", n)
		}
	})
}
