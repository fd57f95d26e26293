package loginguard_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// While Redis is unavailable, the guard fails closed, uses a local share of the limits or
// fails open.
func TestFailureModes(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	store, err := fallback.New(mustOpenRedis(t, server), &fallback.Options{Local: memstore.New(nil), Instances: 1, Budget: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	forms := make(map[headgate.OnStoreError]*loginguard.Guard)
	for _, o := range []headgate.OnStoreError{headgate.FailClosed, headgate.FailLocal, headgate.FailOpen} {
		forms[o] = mustNew(t, store, &loginguard.Options{Name: string(o), OnStoreError: o})
		mustServe(t, forms[o].Protect(login), form("192.0.2.1", "bob", right), http.StatusSeeOther)
	}
	server.Kill()

	bob := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	if _, err := forms[headgate.FailClosed].Attempt(t.Context(), bob); !errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("closed: error %v; want %v", err, headgate.ErrStoreUnavailable)
	}
	mustServe(t, forms[headgate.FailClosed].Protect(login), form("192.0.2.1", "bob", right), http.StatusServiceUnavailable)
	for _, c := range []struct {
		on   headgate.OnStoreError
		want int
	}{{headgate.FailLocal, 5}, {headgate.FailOpen, 50}} {
		allowed := 0
		for range 50 {
			a, err := forms[c.on].AttemptAt(t.Context(), noon.Time(), bob)
			if err != nil {
				t.Fatalf("%s: %v", c.on, err)
			}
			if a.Known() {
				t.Fatalf("%s: the pair is known without the store", c.on)
			}
			if a.Allowed() {
				allowed++
			}
		}
		if allowed != c.want {
			t.Errorf("%s: %d of 50 attempts are allowed; want %d", c.on, allowed, c.want)
		}
	}
	mustServe(t, forms[headgate.FailLocal].Protect(login), form("192.0.2.1", "bob", right), http.StatusSeeOther)
}

// Attempts that failed open were not charged, and are not refunded after the store has
// recovered: otherwise each own success of an attacker would allow one more guess.
func TestUnchargedAttemptsAreNotRefunded(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	store, err := fallback.New(mustOpenRedis(t, server), &fallback.Options{Budget: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	policy := headgate.Policy{Name: "login/address/0", Limits: headgate.MustPolicy("10/24h").Limits, OnStoreError: headgate.FailOpen}
	g := mustNew(t, store, &loginguard.Options{OnStoreError: headgate.FailOpen, Limits: loginguard.Limits{Address: policy.Limits}})
	address, err := headgate.New(store, policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	attacker := loginguard.Client{Addr: host(1, 1), Account: "mallory"}
	for range 3 {
		mustAttempt(t, g, headgate.StoreClock, loginguard.Client{Addr: attacker.Addr, Account: "bob"}).Failed()
	}
	server.Stop()
	var uncharged []*loginguard.Attempt
	for range 3 {
		uncharged = append(uncharged, mustAttempt(t, g, headgate.StoreClock, attacker))
	}
	server.Continue()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	left := func() headgate.Decision {
		d, err := address.PeekN(ctx, hashOf(t, attacker), 0)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for left().Degraded != headgate.ReasonNone { // until the store has recovered
	}
	for _, a := range uncharged {
		mustSucceed(t, headgate.StoreClock, a)
	}
	// A call that the server executed late has charged an attempt. Its success cancels
	// it.
	if d := left(); d.Remaining > 7 {
		t.Errorf("%d left of 10 after 3 failures and uncharged successes; want at most 7", d.Remaining)
	}
}

// hashOf returns the address of c as it is hashed in events.
func hashOf(t *testing.T, c loginguard.Client) string {
	t.Helper()
	h := &eventRecorder{}
	mustAttempt(t, mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h}), noon, c).Failed()
	return h.events[0].Address
}

// closedGuard returns a guard whose store is closed.
func closedGuard(t *testing.T, opts *loginguard.Options) *loginguard.Guard {
	t.Helper()
	store := memstore.New(nil)
	g := mustNew(t, store, opts)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStoreError(t *testing.T) {
	t.Parallel()
	h := &eventRecorder{}
	w := mustServe(t, closedGuard(t, &loginguard.Options{Observer: h}).Protect(login), form("192.0.2.1", "bob", right), http.StatusServiceUnavailable)
	if w.Header().Get("Retry-After") == "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("header %v; want Retry-After and no-store", w.Header())
	}
	if len(h.events) != 1 || h.events[0].Kind != loginguard.KindError || !errors.Is(h.events[0].Err, headgate.ErrClosed) {
		t.Errorf("events %+v; want one error with its cause", h.events)
	}
	custom := closedGuard(t, &loginguard.Options{ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusTeapot)
	}})
	mustServe(t, custom.Protect(login), form("192.0.2.1", "bob", right), http.StatusTeapot)
}

// An attempt that cannot be refunded stays charged, and the error is reported.
func TestRefundError(t *testing.T) {
	t.Parallel()
	h := &eventRecorder{}
	store := memstore.New(nil)
	g := mustNew(t, store, &loginguard.Options{Observer: h})
	a := mustAttempt(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: "bob"})
	_ = store.Close()
	if err := a.Succeeded(t.Context()); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("error %v; want %v", err, headgate.ErrClosed)
	}
	if len(h.events) != 1 || h.events[0].Kind != loginguard.KindError {
		t.Errorf("events %+v; want one error", h.events)
	}
}

// The outcome is stored although the client has disconnected: a success is refunded, and
// a failure is not an open hold.
func TestOutcomeAfterDisconnect(t *testing.T) {
	t.Parallel()
	store := mustOpenRedis(t, testserver.Redis(t)) // a store that respects the context
	t.Cleanup(func() { _ = store.Close() })
	for want, report := range map[loginguard.EventKind]func(*http.Request){
		loginguard.KindSucceeded: loginguard.Succeeded,
		loginguard.KindFailed:    loginguard.Failed,
		loginguard.KindUnknown:   func(*http.Request) {},
	} {
		h := &eventRecorder{}
		g := mustNew(t, store, &loginguard.Options{Observer: h, Limits: loginguard.Limits{Total: manyAttempts}})
		ctx, cancel := context.WithCancel(t.Context())
		account := string(want)
		serve(g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			report(r)
			cancel()
		})), form("192.0.2.1", account, right).WithContext(ctx))
		if len(h.events) != 1 || h.events[0].Kind != want {
			t.Errorf("events %+v; want one, %s", h.events, want)
		}
		if _, open := probeTotal(t, store, headgate.StoreClock); open {
			t.Errorf("%s: the attempt is an open hold", want)
		}
	}
}
