package memcachedstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

// mustFail fails the test unless err is a StoreError with this reason whose text
// contains word.
func mustFail(t *testing.T, err error, want headgate.StoreErrorReason, word string) {
	t.Helper()
	var e *headgate.StoreError
	if !errors.As(err, &e) || !errors.Is(err, headgate.ErrStoreUnavailable) || e.Reason != want || !strings.Contains(err.Error(), word) {
		t.Errorf("got error %v want a StoreError that is %s and contains %q", err, want, word)
	}
}

func takeErr(ctx context.Context, b *bound, key string) error {
	_, err := b.Apply(ctx, testInstant, key, headgate.Take, 1)
	return err
}

// T8: a lost reply is an error, and the write is never sent again.
func TestLostReplyNotChargedTwice(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	wire := testserver.Proxy(t, server.Addr())
	direct := mustBind(t, mustNew(t, nil, server.Addr()), "rule", "", "10/1h")
	b := mustBind(t, mustNew(t, nil, wire.Addr()), "rule", "", "10/1h")
	for i, verb := range []string{"add ", "cas ", "cas "} {
		wire.DropRepliesTo(1, verb)
		mustFail(t, takeErr(t.Context(), b, "key"), headgate.ReasonTimedOut, "unknown")
		if got := remaining(t, direct, testInstant, "key"); got != int64(9-i) {
			t.Errorf("after the lost reply to %d takes, the last by %s: got %d remaining want %d", i+1, verb, got, 9-i)
		}
	}
	wire.DropRepliesTo(1, "gets ")
	if d := mustTake(t, b, testInstant, "key", 1); !d.Allowed || d.Remaining != 6 {
		t.Errorf("a lost reply to a gets: got %+v want allowed with 6 remaining: reading twice is harmless", d)
	}
}

// If one of several replies is lost, what was written for the other keys is refunded.
func TestLostReplyMultiKey(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	wire := testserver.Proxy(t, server.Addr())
	direct := mustBind(t, mustNew(t, nil, server.Addr()), "rule", "", "10/1h")
	first, second := orderedKeys(direct)
	writes := 0
	s := newTappedStore(t, nil, wire.Addr(), func(verb, _ string) {
		if verb == "add" {
			if writes++; writes == 2 {
				wire.DropRepliesTo(1, "add ")
			}
		}
	})
	b := mustBind(t, s, "rule", "", "10/1h")
	ops := []headgate.Op{{Bound: b, Key: "left", Cost: 3}, {Bound: b, Key: "right", Cost: 3}}
	err := s.ApplyAll(t.Context(), testInstant, ops, false, make([]headgate.Decision, 2))
	mustFail(t, err, headgate.ReasonTimedOut, "unknown")
	if got := remaining(t, direct, testInstant, first); got != 10 {
		t.Errorf("the key written first: got %d remaining want 10: it was refunded", got)
	}
	if got := remaining(t, direct, testInstant, second); got != 7 {
		t.Errorf("the key with the lost reply: got %d remaining want 7", got)
	}
}

// After a restart every idle connection is broken, but no call fails.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	b := mustBind(t, mustNew(t, &Options{Timeout: longTimeout}, server.Addr()), "rule", "", "100/1h")
	takeInOneRound := func() {
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				if err := takeErr(t.Context(), b, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	takeInOneRound()
	server.Kill()
	for range 3 {
		mustFail(t, takeErr(t.Context(), b, "0"), headgate.ReasonUnreachable, "refused")
	}
	server.Start()
	takeInOneRound()
	if got := remaining(t, b, testInstant, "0"); got != 99 {
		t.Errorf("after a restart: got %d remaining want 99: a restart loses all keys", got)
	}
}

// While a server does not answer, calls end with their contexts or the store's Timeout.
// Calls beyond MaxWaiting fail immediately. None of them spends anything.
func TestServerUnresponsive(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	b := mustBind(t, mustNew(t, &Options{MaxWaiting: 50, Timeout: time.Hour}, server.Addr()), "rule", "", "100/1h")
	hurried := mustBind(t, mustNew(t, &Options{Timeout: 50 * time.Millisecond}, server.Addr()), "rule", "", "100/1h")
	mustTake(t, b, testInstant, "key", 1)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := takeErr(ctx, b, "key")
	mustFail(t, err, headgate.ReasonOverloaded, "nothing was spent")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call with a deadline of 50 ms: got error %v want one that matches context.DeadlineExceeded", err)
	}
	if err := takeErr(t.Context(), hurried, "key"); !errors.Is(err, headgate.ErrStoreUnavailable) || !strings.Contains(err.Error(), "nothing was spent") {
		t.Errorf("a call without a deadline: got error %v want a StoreError with \"nothing was spent\"", err)
	}
	mustRefuseBeyondMaxWaiting(t, b, 200, 50)
	server.Continue()
	eventually(t, func() bool { return takeErr(t.Context(), b, "key") == nil }, "a decision once the server answers")
	if got := remaining(t, b, testInstant, "key"); got != 98 {
		t.Errorf("afterwards: got %d remaining want 98: calls that ended before they wrote spend nothing", got)
	}
}

// mustRefuseBeyondMaxWaiting makes more calls than may wait: the calls beyond
// MaxWaiting are refused immediately, and the waiting ones end with their context.
func mustRefuseBeyondMaxWaiting(t *testing.T, b *bound, callers, maxWaiting int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var overloaded, canceled atomic.Int64
	for i := range callers {
		all.Go(func() {
			var e *headgate.StoreError
			switch err := takeErr(ctx, b, fmt.Sprint("other ", i)); {
			case errors.As(err, &e) && e.Reason == headgate.ReasonOverloaded:
				overloaded.Add(1)
			case errors.Is(err, context.Canceled):
				canceled.Add(1)
			default:
				t.Errorf("got error %v want overloaded or context.Canceled", err)
			}
		})
	}
	eventually(t, func() bool { return overloaded.Load() >= callers-maxWaiting }, "refusals of callers beyond MaxWaiting")
	cancel()
	all.Wait()
	if got := canceled.Load(); got == 0 {
		t.Errorf("%d calls, MaxWaiting %d: got no queued call", callers, maxWaiting)
	}
}

// T33: one unresponsive server does not block calls for the others.
func TestUnresponsiveServerDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	still, fine := testserver.Memcached(t), testserver.Memcached(t)
	s := mustNew(t, &Options{MaxConns: 2, Timeout: longTimeout}, still.Addr(), fine.Addr())
	b := mustBind(t, s, "rule", "", "100/1h")
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	var all sync.WaitGroup
	still.Stop()
	for i := range 100 {
		key := fmt.Sprint(i)
		if d := b.scope.digest(key); s.servers.index(d.name()) == 0 {
			all.Go(func() { _ = takeErr(ctx, b, key) })
			continue
		}
		if d := mustTake(t, b, testInstant, key, 1); !d.Allowed {
			t.Errorf("key %s of the responsive server: got denied", key)
		}
	}
	cancel()
	all.Wait()
	still.Continue()
}

// A call whose context has ended changes nothing; neither does a call whose context
// ends while it waits for another round.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	wire := testserver.Proxy(t, server.Addr())
	b := mustBind(t, mustNew(t, &Options{Timeout: longTimeout}, wire.Addr()), "rule", "", "10/1h")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := takeErr(over, b, "key"); !errors.Is(err, context.Canceled) || errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("an ended context: got error %v want context.Canceled and not a StoreError", err)
	}
	wire.Blackhole(true)
	leader := make(chan error)
	go func() { leader <- takeErr(t.Context(), b, "key") }()
	for wire.Counts().Connections == 0 {
		time.Sleep(time.Millisecond)
	}
	ending, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := takeErr(ending, b, "key"); !errors.Is(err, context.Canceled) || errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("canceled while waiting: got error %v want context.Canceled and not a StoreError", err)
	}
	wire.Blackhole(false)
	if err := <-leader; err != nil {
		t.Errorf("the call that was not canceled: got %v", err)
	}
	if got := remaining(t, b, testInstant, "key"); got != 9 {
		t.Errorf("got %d remaining want 9: two of three takes were canceled", got)
	}
}

// A take that is canceled while its write is in flight may have been spent, and its
// error reports that.
func TestContextEndsDuringWrite(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := make(chan struct{})
	s := newTappedStore(t, nil, server.Addr(), func(verb, _ string) {
		if verb == "add" {
			cancel()
			<-release
		}
	})
	b := mustBind(t, s, "rule", "", "10/1h")
	mustFail(t, takeErr(ctx, b, "key"), headgate.ReasonTimedOut, "unknown")
	close(release)
	if got := remaining(t, b, testInstant, "key"); got != 9 {
		t.Errorf("got %d remaining want 9: the write was executed", got)
	}
}

func TestForeignValues(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	back := newClient(t, server.Addr())
	s := mustNew(t, nil, server.Addr())
	for _, a := range allAlgorithms() {
		b := mustBind(t, s, "rule", a, "10/1h")
		d := b.scope.digest("key")
		zeros := strings.Repeat("\x00", 24)
		for _, value := range []string{
			"", "1", "12345", "\xb1", "\xb2", "\xb3" + zeros, "\xb3" + zeros[:8], zeros,
			strings.Repeat("\xb1", 25), strings.Repeat("\xb2", 25), strings.Repeat("x", 9000),
		} {
			if err := back.Set(&memcache.Item{Key: d.name(), Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
			mustFail(t, takeErr(t.Context(), b, "key"), headgate.ReasonWrongType, "Namespace")
			if item, err := back.Get(d.name()); err != nil || string(item.Value) != value {
				t.Errorf("%s: the foreign value %.9q was changed", a, value)
			}
		}
	}
}

// listen passes each connection to serve after reading from it.
func listen(t *testing.T, serve func(conn net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(longTimeout))
				_, _ = conn.Read(make([]byte, 4096))
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

func TestOtherServers(t *testing.T) {
	t.Parallel()
	reply := func(text string) func(net.Conn) { return func(c net.Conn) { _, _ = io.WriteString(c, text) } }
	for _, c := range []struct {
		name  string
		addr  string
		want  headgate.StoreErrorReason
		words string
	}{
		{"Redis", testserver.Redis(t).Addr(), headgate.ReasonRefused, "is memcached"},
		{"HTTP", listen(t, reply("HTTP/1.1 400 Bad Request\r\n\r\n")), headgate.ReasonRefused, "is memcached"},
		{"no newline", listen(t, reply(strings.Repeat("x", 9000))), headgate.ReasonRefused, "is memcached"},
		{"closed connection", listen(t, func(net.Conn) {}), headgate.ReasonUnreachable, "EOF"},
		{"memcached without cas", testserver.Memcached(t, "-C").Addr(), headgate.ReasonRefused, "without the option -C"},
		{"memcached with a password", listen(t, reply("CLIENT_ERROR unauthenticated\r\n")), headgate.ReasonRefused, "without -Y"},
		{"no server", "127.0.0.1:1", headgate.ReasonUnreachable, "check that the server is running"},
		{"unknown host", "no-such-host.invalid:11211", headgate.ReasonUnreachable, "no-such-host.invalid"},
		{"missing socket", t.TempDir() + "/socket", headgate.ReasonUnreachable, "check that the server is running"},
	} {
		b := mustBind(t, mustNew(t, &Options{Timeout: longTimeout}, c.addr), "rule", "", "1/1h")
		_ = takeErr(t.Context(), b, "key")
		t.Run(c.name, func(t *testing.T) { mustFail(t, takeErr(t.Context(), b, "key"), c.want, c.words) })
	}
}

// T4, T43: a full server that may not evict refuses, and nothing is allowed that was
// not written.
func TestServerOutOfMemory(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t, "-m", "2", "-M")
	back := newClient(t, server.Addr())
	for i := range 200_000 {
		if err := back.Set(&memcache.Item{Key: fmt.Sprintf("hg:%022d", i), Value: make([]byte, 25), Expiration: 1000}); err != nil {
			break
		}
	}
	b := mustBind(t, mustNew(t, nil, server.Addr()), "rule", "", "1/1h")
	var err error
	for i := range 2000 {
		if err = takeErr(t.Context(), b, fmt.Sprint(i)); err != nil {
			break
		}
	}
	mustFail(t, err, headgate.ReasonRefused, "raise its option -m")
}

func TestBindOnStoreError(t *testing.T) {
	t.Parallel()
	s := mustNew(t, nil, "127.0.0.1:1")
	for _, o := range []headgate.OnStoreError{headgate.FailOpen, headgate.FailLocal} {
		_, err := s.Bind(headgate.Rule{Limit: headgate.MustParseLimit("1/1s"), OnStoreError: o})
		if !errors.Is(err, headgate.ErrUnsupported) || !strings.Contains(err.Error(), "fallback.New") {
			t.Errorf("%s: got error %v want ErrUnsupported that names fallback.New", o, err)
		}
	}
	for _, o := range []headgate.OnStoreError{"", headgate.FailClosed} {
		if _, err := s.Bind(headgate.Rule{Limit: headgate.MustParseLimit("1/1s"), OnStoreError: o}); err != nil {
			t.Errorf("%q: got error %v want none", o, err)
		}
	}
}

// A leased rule needs the store of package lease.
func TestBindOfLeasedRule(t *testing.T) {
	t.Parallel()
	s := mustNew(t, nil, "127.0.0.1:1")
	_, err := s.Bind(headgate.Rule{Limit: headgate.MustParseLimit("100/1s"), Lease: headgate.LeaseSettings{Share: 10}})
	if !errors.Is(err, headgate.ErrUnsupported) || !strings.Contains(err.Error(), "lease.New") {
		t.Errorf("got error %v want ErrUnsupported that names lease.New", err)
	}
}
