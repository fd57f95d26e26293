package loginguard_test

import (
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// noon is when every attack begins. It is no multiple of any window.
const noon = headgate.Instant(1_779_192_000_123_456)

var secret = []byte("a secret of more than 16 bytes")

func after(d time.Duration) headgate.Instant { return noon + headgate.Instant(d/time.Microsecond) }

func mustNew(t testing.TB, store headgate.Store, opts *loginguard.Options) *loginguard.Guard {
	t.Helper()
	if opts == nil {
		opts = &loginguard.Options{}
	}
	if opts.Secret == nil {
		opts.Secret = secret
	}
	g, err := loginguard.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustTry(t testing.TB, g *loginguard.Guard, now headgate.Instant, c loginguard.Client) *loginguard.Attempt {
	t.Helper()
	attempt := func() (*loginguard.Attempt, error) { return g.AttemptAt(t.Context(), now.Time(), c) }
	if now == headgate.StoreClock {
		attempt = func() (*loginguard.Attempt, error) { return g.Attempt(t.Context(), c) }
	}
	a, err := attempt()
	if err != nil {
		t.Fatalf("attempt: %v", err)
	}
	return a
}

func mustSucceed(t testing.TB, now headgate.Instant, a *loginguard.Attempt) {
	t.Helper()
	if !a.Allowed() {
		t.Fatalf("a try at %d is denied by %v; want it allowed", now-noon, a.DeniedBy())
	}
	succeeded := func() error { return a.SucceededAt(t.Context(), now.Time()) }
	if now == headgate.StoreClock {
		succeeded = func() error { return a.Succeeded(t.Context()) }
	}
	if err := succeeded(); err != nil {
		t.Fatal(err)
	}
}

// host is the n-th address of an IPv4 network: 10.x.y.0/24.
func host(subnet, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(subnet >> 8), byte(subnet), byte(n)})
}

func name(n int) string { return "user" + strconv.Itoa(n) }

func newMemory(testing.TB) headgate.Store { return memstore.New(nil) }

// heard collects events.
type heard struct {
	mu     sync.Mutex
	events []loginguard.Event
}

func (h *heard) ObserveAttempt(e loginguard.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *heard) kinds() map[loginguard.EventKind]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := make(map[loginguard.EventKind]int)
	for _, e := range h.events {
		n[e.Kind]++
	}
	return n
}

// v6 is an address in a /64 of its own, of one /48.
func v6(hi, lo byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0xd, 3: 0xb8, 6: hi, 7: lo, 15: 1})
}

// greedy is an attacker who tries as often as he is let, one guess after another: at once while he is allowed, and when he is
// denied again after just the wait that he was told. Every guess is wrong.
type greedy struct {
	guard *loginguard.Guard
	next  func(try int) loginguard.Client
	now   headgate.Instant
	tries int // admitted so far
}

// step makes guesses until one is denied, and moves on to when the next may be made.
func (g *greedy) step(t testing.TB) {
	t.Helper()
	for {
		a := mustTry(t, g.guard, g.now, g.next(g.tries))
		if !a.Allowed() {
			if a.RetryAfter() <= 0 {
				t.Fatalf("a denial by %v tells to wait %v; want more than 0", a.DeniedBy(), a.RetryAfter())
			}
			g.now += headgate.Instant(a.RetryAfter() / time.Microsecond)
			return
		}
		a.Failed()
		g.tries++
	}
}

// until makes guesses until the instant end, and at it, and says how many were admitted in all.
func (g *greedy) until(t testing.TB, end headgate.Instant) int {
	t.Helper()
	for g.now <= end {
		g.step(t)
	}
	return g.tries
}
