package memcachedstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

// keysOn returns one key for each of these servers; the digests of the keys are in this
// order.
func keysOn(t *testing.T, b *bound, servers ...int) []string {
	t.Helper()
	var keys []string
	var last digest
	for i := 0; len(keys) < len(servers); i++ {
		key := fmt.Sprint("key ", i)
		if d := b.scope.digest(key); b.store.servers.index(d.name()) == servers[len(keys)] && (keys == nil || d.compare(last) > 0) {
			keys, last = append(keys, key), d
		}
		if i == 10_000 {
			t.Fatal("no key found in 10,000")
		}
	}
	return keys
}

// T33: requests on several keys, one of them on an unresponsive server, do not block
// calls for other servers.
func TestMultiKeyUnresponsiveServer(t *testing.T) {
	t.Parallel()
	fine, still := testserver.Memcached(t), testserver.Memcached(t)
	s := mustNew(t, &Options{MaxConns: 2, Timeout: time.Hour}, fine.Addr(), still.Addr())
	var sent atomic.Int64
	tapAll(s, func(string, string) { sent.Add(1) })
	b := mustBind(t, s, "rule", "", "100/1h")
	keys := keysOn(t, b, 0, 0, 0, 0, 0, 0, 1)
	still.Stop()
	defer still.Continue()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, key := range keys[:5] {
		ops := []headgate.Op{{Bound: b, Key: key, Cost: 1}, {Bound: b, Key: keys[6] + key, Cost: 1}}
		for s.servers.index(keyName(b, ops[1].Key)) != 1 {
			ops[1].Key += "'"
		}
		all.Go(func() { _ = s.ApplyAll(ctx, testInstant, ops, false, make([]headgate.Decision, 2)) })
	}
	eventually(t, func() bool { return sent.Load() >= 2 }, "requests in flight to the unresponsive server")
	longTimeout, done := context.WithTimeout(t.Context(), longTimeout)
	defer done()
	if d, err := b.Apply(longTimeout, testInstant, keys[5], headgate.Take, 1); err != nil || !d.Allowed {
		t.Errorf("a key of the responsive server: got %+v, error %v want allowed while the others wait", d, err)
	}
	cancel()
	still.Continue()
	all.Wait()
}

func keyName(b *bound, key string) string { return b.scope.digest(key).name() }

// If a failed request on several keys may stay partly spent, its error does not claim
// that nothing was spent.
func TestMultiKeyFailureTimedOut(t *testing.T) {
	t.Parallel()
	first, second := testserver.Memcached(t), testserver.Memcached(t)
	other := mustBind(t, mustNew(t, nil, first.Addr(), second.Addr()), "rule", "", "10/1h")
	keys := keysOn(t, other, 0, 1)
	s := mustNew(t, &Options{MaxTries: 1, Timeout: time.Second}, first.Addr(), second.Addr())
	var writes atomic.Int64
	tapAll(s, func(verb, _ string) {
		if verb == "add" && writes.Add(1) == 2 {
			mustTake(t, other, testInstant, keys[1], 1)
			first.Stop()
		}
	})
	b := mustBind(t, s, "rule", "", "10/1h")
	ops := []headgate.Op{{Bound: b, Key: keys[0], Cost: 3}, {Bound: b, Key: keys[1], Cost: 3}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := s.ApplyAll(ctx, testInstant, ops, false, make([]headgate.Decision, 2))
	first.Continue()
	mustFail(t, err, headgate.ReasonTimedOut, "may stay spent")
	if got := remaining(t, other, testInstant, keys[0]); got != 7 {
		t.Errorf("the key that could not be refunded: got %d remaining want 7", got)
	}
	if got := remaining(t, other, testInstant, keys[1]); got != 9 {
		t.Errorf("the key that another process has changed: got %d remaining want 9", got)
	}
}

// Of keys on several servers only the key that another process has changed is read
// again.
func TestMultiKeyConflict(t *testing.T) {
	t.Parallel()
	first, second := testserver.Memcached(t), testserver.Memcached(t)
	other := mustBind(t, mustNew(t, nil, first.Addr(), second.Addr()), "rule", "", "10/1h")
	keys := keysOn(t, other, 0, 1)
	s := mustNew(t, nil, first.Addr(), second.Addr())
	var writes atomic.Int64
	tapAll(s, func(verb, _ string) {
		if verb == "add" && writes.Add(1) == 2 {
			mustTake(t, other, testInstant, keys[1], 1)
		}
	})
	b := mustBind(t, s, "rule", "", "10/1h")
	ops := []headgate.Op{{Bound: b, Key: keys[0], Cost: 3}, {Bound: b, Key: keys[1], Cost: 3}}
	d := make([]headgate.Decision, 2)
	if err := s.ApplyAll(t.Context(), testInstant, ops, false, d); err != nil || !d[0].Allowed || !d[1].Allowed {
		t.Fatalf("got %+v, error %v want allowed", d, err)
	}
	for i, want := range []int64{7, 6} {
		if got := remaining(t, other, testInstant, keys[i]); got != want {
			t.Errorf("key %d: got %d remaining want %d", i+1, got, want)
		}
	}
}

// A call that ends by its context or the store's Timeout while the server does not
// answer spends nothing.
func TestTimeoutBeforeSendSpendsNothing(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	b := mustBind(t, mustNew(t, nil, server.Addr()), "rule", "", "10/1h")
	hurried := mustBind(t, mustNew(t, &Options{Timeout: 50 * time.Millisecond}, server.Addr()), "rule", "", "10/1h")
	server.Stop()
	for _, verb := range []headgate.Verb{headgate.Take, headgate.Peek} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := b.Apply(ctx, testInstant, "key", verb, 1)
		cancel()
		mustFail(t, err, headgate.ReasonOverloaded, "nothing was spent")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v want one that matches context.DeadlineExceeded", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		_, err = hurried.Apply(ctx, testInstant, "key", verb, 1)
		cancel()
		mustFail(t, err, headgate.ReasonUnreachable, "nothing was spent")
	}
	server.Continue()
	if got := remaining(t, b, testInstant, "key"); got != 10 {
		t.Errorf("got %d remaining want 10", got)
	}
}

// A second Close waits for the first.
func TestConcurrentClose(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	s := newTappedStore(t, nil, server.Addr(), func(verb, _ string) {
		if verb == "add" {
			close(inside)
			<-leave
		}
	})
	b := mustBind(t, s, "rule", "", "10/1h")
	go func() { _ = takeErr(context.Background(), b, "key") }()
	<-inside
	var ended atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			ended.Add(1)
		})
	}
	eventually(t, s.isClosed, "the store closed")
	for range 10_000 {
		runtime.Gosched() // both may return now if they do not wait
	}
	if got := ended.Load(); got != 0 {
		t.Errorf("during an operation: %d of 2 calls of Close have returned want 0", got)
	}
	close(leave)
	all.Wait()
}
