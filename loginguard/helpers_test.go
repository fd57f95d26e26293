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

// noon is the time at which every attack starts. It is not a multiple of any window.
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

func mustAttempt(t testing.TB, g *loginguard.Guard, now headgate.Instant, c loginguard.Client) *loginguard.Attempt {
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
		t.Fatalf("an attempt at %d is denied by %v; want it allowed", now-noon, a.DeniedBy())
	}
	succeeded := func() error { return a.SucceededAt(t.Context(), now.Time()) }
	if now == headgate.StoreClock {
		succeeded = func() error { return a.Succeeded(t.Context()) }
	}
	if err := succeeded(); err != nil {
		t.Fatal(err)
	}
}

// host returns the n-th address of an IPv4 network 10.x.y.0/24.
func host(subnet, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(subnet >> 8), byte(subnet), byte(n)})
}

func name(n int) string { return "user" + strconv.Itoa(n) }

func newMemory(testing.TB) headgate.Store { return memstore.New(nil) }

// eventRecorder is an observer that records events.
type eventRecorder struct {
	mu     sync.Mutex
	events []loginguard.Event
}

func (h *eventRecorder) ObserveAttempt(e loginguard.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *eventRecorder) kinds() map[loginguard.EventKind]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := make(map[loginguard.EventKind]int)
	for _, e := range h.events {
		n[e.Kind]++
	}
	return n
}

// v6 returns an address with its own /64, in one /48.
func v6(hi, lo byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0xd, 3: 0xb8, 6: hi, 7: lo, 15: 1})
}

// attacker makes guesses as fast as the guard allows: immediately while they are
// allowed, and after RetryAfter when one is denied. Every guess is wrong.
type attacker struct {
	guard   *loginguard.Guard
	next    func(n int) loginguard.Client
	now     headgate.Instant
	allowed int // attempts allowed so far
}

// step makes guesses until one is denied, then advances now to when the next one is
// allowed.
func (g *attacker) step(t testing.TB) {
	t.Helper()
	for {
		a := mustAttempt(t, g.guard, g.now, g.next(g.allowed))
		if !a.Allowed() {
			if a.RetryAfter() <= 0 {
				t.Fatalf("a denial by %v has RetryAfter %v; want more than 0", a.DeniedBy(), a.RetryAfter())
			}
			g.now += headgate.Instant(a.RetryAfter() / time.Microsecond)
			return
		}
		a.Failed()
		g.allowed++
	}
}

// runUntil makes guesses until end, inclusive, and returns how many were allowed in
// total.
func (g *attacker) runUntil(t testing.TB, end headgate.Instant) int {
	t.Helper()
	for g.now <= end {
		g.step(t)
	}
	return g.allowed
}
