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

// on gives a key for each of these servers, the digests of which come in this order.
func on(t *testing.T, b *bound, servers ...int) []string {
	t.Helper()
	var keys []string
	var last digest
	for i := 0; len(keys) < len(servers); i++ {
		key := fmt.Sprint("key ", i)
		if d := b.scope.digest(key); b.store.servers.index(d.name()) == servers[len(keys)] && (keys == nil || d.compare(last) > 0) {
			keys, last = append(keys, key), d
		}
		if i == 10_000 {
			t.Fatal("10,000 keys, and none fits")
		}
	}
	return keys
}

// T33: requests on several keys of which one lies on a server that stands still hold up nobody who asks for another server's key.
func TestSeveralOnAStillServerStopNoOther(t *testing.T) {
	t.Parallel()
	fine, still := testserver.Memcached(t), testserver.Memcached(t)
	s := mustNew(t, &Options{MaxConns: 2, Timeout: time.Hour}, fine.Addr(), still.Addr())
	var sent atomic.Int64
	tapAll(s, func(string, string) { sent.Add(1) })
	b := mustBind(t, s, "rule", "", "100/1h")
	keys := on(t, b, 0, 0, 0, 0, 0, 0, 1)
	still.Stop()
	defer still.Continue()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, key := range keys[:5] {
		ops := []headgate.Op{{Bound: b, Key: key, Cost: 1}, {Bound: b, Key: keys[6] + key, Cost: 1}}
		for s.servers.index(nameOf(b, ops[1].Key)) != 1 {
			ops[1].Key += "'"
		}
		all.Go(func() { _ = s.ApplyAll(ctx, start, ops, false, make([]headgate.Decision, 2)) })
	}
	eventually(t, func() bool { return sent.Load() >= 2 }, "requests under way to the server that does not answer")
	patient, done := context.WithTimeout(t.Context(), patience)
	defer done()
	if d, err := b.Apply(patient, start, keys[5], headgate.Take, 1); err != nil || !d.Allowed {
		t.Errorf("a key of the server that runs: got %+v, error %v want allowed while the others wait", d, err)
	}
	cancel()
	still.Continue()
	all.Wait()
}

func nameOf(b *bound, key string) string { return b.scope.digest(key).name() }

// What stays spent of a request on several keys that failed is not said to be unspent.
func TestFailureThatCannotBeGivenBackIsUnknown(t *testing.T) {
	t.Parallel()
	first, second := testserver.Memcached(t), testserver.Memcached(t)
	other := mustBind(t, mustNew(t, nil, first.Addr(), second.Addr()), "rule", "", "10/1h")
	keys := on(t, other, 0, 1)
	s := mustNew(t, &Options{MaxTries: 1, Timeout: time.Second}, first.Addr(), second.Addr())
	var writes atomic.Int64
	tapAll(s, func(verb, _ string) {
		if verb == "add" && writes.Add(1) == 2 {
			mustTake(t, other, start, keys[1], 1)
			first.Stop()
		}
	})
	b := mustBind(t, s, "rule", "", "10/1h")
	ops := []headgate.Op{{Bound: b, Key: keys[0], Cost: 3}, {Bound: b, Key: keys[1], Cost: 3}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := s.ApplyAll(ctx, start, ops, false, make([]headgate.Decision, 2))
	first.Continue()
	mustTrouble(t, err, headgate.ReasonTimedOut, "may stay spent")
	if got := remaining(t, other, start, keys[0]); got != 7 {
		t.Errorf("the key that could not be given back: got %d remaining want 7", got)
	}
	if got := remaining(t, other, start, keys[1]); got != 9 {
		t.Errorf("the key that another process has changed: got %d remaining want 9", got)
	}
}

// Of keys on several servers the one that another process has changed is read anew, alone.
func TestChangeOfOneKeyOfSeveralServers(t *testing.T) {
	t.Parallel()
	first, second := testserver.Memcached(t), testserver.Memcached(t)
	other := mustBind(t, mustNew(t, nil, first.Addr(), second.Addr()), "rule", "", "10/1h")
	keys := on(t, other, 0, 1)
	s := mustNew(t, nil, first.Addr(), second.Addr())
	var writes atomic.Int64
	tapAll(s, func(verb, _ string) {
		if verb == "add" && writes.Add(1) == 2 {
			mustTake(t, other, start, keys[1], 1)
		}
	})
	b := mustBind(t, s, "rule", "", "10/1h")
	ops := []headgate.Op{{Bound: b, Key: keys[0], Cost: 3}, {Bound: b, Key: keys[1], Cost: 3}}
	d := make([]headgate.Decision, 2)
	if err := s.ApplyAll(t.Context(), start, ops, false, d); err != nil || !d[0].Allowed || !d[1].Allowed {
		t.Fatalf("got %+v, error %v want allowed", d, err)
	}
	for i, want := range []int64{7, 6} {
		if got := remaining(t, other, start, keys[i]); got != want {
			t.Errorf("key %d: got %d remaining want %d", i+1, got, want)
		}
	}
}

// A call that ends while the server does not answer, by its context or by the store's Timeout, spends nothing.
func TestCallThatTimesOutUnsentSpendsNothing(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	b := mustBind(t, mustNew(t, nil, server.Addr()), "rule", "", "10/1h")
	hurried := mustBind(t, mustNew(t, &Options{Timeout: 50 * time.Millisecond}, server.Addr()), "rule", "", "10/1h")
	server.Stop()
	for _, verb := range []headgate.Verb{headgate.Take, headgate.Peek} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := b.Apply(ctx, start, "key", verb, 1)
		cancel()
		mustTrouble(t, err, headgate.ReasonOverloaded, "nothing was spent")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v want one that matches context.DeadlineExceeded", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		_, err = hurried.Apply(ctx, start, "key", verb, 1)
		cancel()
		mustTrouble(t, err, headgate.ReasonUnreachable, "nothing was spent")
	}
	server.Continue()
	if got := remaining(t, b, start, "key"); got != 10 {
		t.Errorf("got %d remaining want 10", got)
	}
}

// A second call of Close waits for the first.
func TestConcurrentClosesWait(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	s := tapped(t, nil, server.Addr(), func(verb, _ string) {
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
		runtime.Gosched() // both may return now, if they do not wait
	}
	if got := ended.Load(); got != 0 {
		t.Errorf("with an operation under way %d of 2 calls of Close have returned want none", got)
	}
	close(leave)
	all.Wait()
}
