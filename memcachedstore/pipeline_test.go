package memcachedstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

// T8: writes of many keys are batched, and their connections break repeatedly. Each key
// has exactly the units of its successful takes, plus at most those with an unknown
// result.
func TestBrokenConnectionsManyKeys(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	proxy := testserver.Proxy(t, server.Addr())
	direct := mustBind(t, mustNew(t, nil, server.Addr()), "rule", "", "100000/1h")
	b := mustBind(t, mustNew(t, &Options{Timeout: longTimeout}, proxy.Addr()), "rule", "", "100000/1h")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var someTaken, someUnknown atomic.Bool
	var all sync.WaitGroup
	var taken, unknown [64]int64
	for i := range taken {
		all.Go(func() {
			for ctx.Err() == nil {
				err := takeErr(t.Context(), b, fmt.Sprint(i))
				var e *headgate.StoreError
				switch {
				case err == nil:
					taken[i]++
					someTaken.Store(true)
				case !errors.As(err, &e):
					t.Errorf("got error %v want a StoreError", err)
				case e.Reason == headgate.ReasonTimedOut:
					unknown[i]++
					someUnknown.Store(true)
				}
			}
		})
	}
	breaks := 0
	eventually(t, func() bool {
		breaks++
		for range 10 { // time for some takes
			time.Sleep(time.Millisecond)
		}
		proxy.Reset()
		return breaks >= 50 && someTaken.Load() && someUnknown.Load()
	}, "takes, some of them with an unknown outcome")
	cancel()
	all.Wait()
	for i := range taken {
		spent := 100_000 - remaining(t, direct, testInstant, fmt.Sprint(i))
		if spent < taken[i] || spent > taken[i]+unknown[i] {
			t.Errorf("key %d: %d units are spent; want %d allowed, plus at most %d with an unknown result", i, spent, taken[i], unknown[i])
		}
	}
}

// The server refuses some writes of a batch: each gets its own reply, and the
// connection is kept.
func TestBatchPartlyRefused(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	s := mustNew(t, nil, server.Addr())
	w := s.pipelines[0]
	text := func(verb, name string, bytes int) *batchItem[writeRequest] {
		return &batchItem[writeRequest]{request: writeRequest{text: fmt.Appendf(nil, "%s %s 0 60 %d\r\n%s\r\n", verb, name, bytes, strings.Repeat("x", bytes))}}
	}
	batch := []*batchItem[writeRequest]{
		text("add", "a", 1), text("add", "large", 2<<20), text("add", "b", 1), text("add", "a", 1), text("replace", "c", 1),
	}
	w.send(batch)
	for i, want := range []string{"STORED", "SERVER_ERROR object too large for cache", "STORED", "NOT_STORED", "NOT_STORED"} {
		if got := batch[i].request; got.err != nil || string(got.reply) != want+"\r\n" {
			t.Errorf("write %d: got %q, error %v want %s", i, got.reply, got.err, want)
		}
	}
	if len(w.idle) != 1 {
		t.Errorf("afterwards: got %d idle connections want 1", len(w.idle))
	}
	for _, key := range []string{"a", "b"} {
		if _, err := newClient(t, server.Addr()).Get(key); err != nil {
			t.Error(err)
		}
	}
}

// After an unexpected reply the next line may be anything: requests without a reply
// have an unknown result, and the connection is closed.
func TestUnexpectedReply(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	w := mustNew(t, nil, server.Addr()).pipelines[0]
	batch := []*batchItem[writeRequest]{
		{request: writeRequest{text: []byte("add a 0 60 1\r\nx\r\n")}},
		{request: writeRequest{text: []byte("add b 0 60 1\r\nxxxxxxx\r\n")}},
		{request: writeRequest{text: []byte("add c 0 60 1\r\nx\r\n")}},
	}
	w.send(batch)
	if got := batch[0].request; got.err != nil || string(got.reply) != "STORED\r\n" {
		t.Errorf("the write before it: got %q, error %v want STORED", got.reply, got.err)
	}
	if got := batch[1].request; got.err != nil || !strings.HasPrefix(string(got.reply), "CLIENT_ERROR") {
		t.Errorf("the reply: got %q, error %v want CLIENT_ERROR", got.reply, got.err)
	}
	mustFail(t, classify(batch[2].request.err, true), headgate.ReasonTimedOut, "unknown")
	if len(w.idle) != 0 {
		t.Errorf("afterwards: got %d idle connections want 0", len(w.idle))
	}
}

// A connection that was idle for long is not used for a write: the server may have
// closed it, and a lost write has an unknown result.
func TestIdleConnectionNotReused(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	s := mustNew(t, nil, server.Addr())
	b := mustBind(t, s, "rule", "", "10/1h")
	mustTake(t, b, testInstant, "key", 1)
	w := s.pipelines[0]
	old := w.idle[0]
	_ = old.Close()
	old.used = time.Now().Add(-maxConnIdle)
	if d := mustTake(t, b, testInstant, "key", 1); !d.Allowed || d.Remaining != 8 {
		t.Errorf("got %+v want allowed with 8 remaining", d)
	}
	if len(w.idle) != 1 || w.idle[0] == old {
		t.Errorf("got %d idle connections want 1 new one", len(w.idle))
	}
}

// A store over an existing client writes with that client only.
func TestNewFromClientHasNoPipelines(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	client := memcache.New(server.Addr())
	s, err := NewFromClient(nil, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Close(), client.Close() })
	if s.writer != client || s.pipelines != nil {
		t.Error("it has a separate client for writes")
	}
	if d := mustTake(t, mustBind(t, s, "rule", "", "10/1h"), testInstant, "key", 1); !d.Allowed {
		t.Errorf("got %+v want allowed", d)
	}
}
