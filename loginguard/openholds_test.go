package loginguard_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memcachedstore"
)

// manyAttempts is a limit for Limits.Total under which a failure ends its hold.
var manyAttempts = headgate.MustPolicy("2000/24h").Limits

// probeTotal returns how many of the 2,000 attempts of manyAttempts remain, and whether
// an attempt is an open hold. It opens a hold under a policy that has the same state, but
// accepts only one open hold of a key.
func probeTotal(t *testing.T, store headgate.Store, now headgate.Instant) (remaining int64, open bool) {
	t.Helper()
	p := headgate.Policy{Name: "login/total/0", Limits: manyAttempts, Holds: headgate.HoldSettings{MaxOpen: 1}}
	l, err := headgate.New(store, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	hold := func() (*headgate.Hold, error) { return l.HoldAt(t.Context(), now.Time(), "", 1, time.Minute) }
	cancel := func(h *headgate.Hold) (headgate.HoldResult, error) { return h.CancelAt(t.Context(), now.Time()) }
	if now == headgate.StoreClock {
		hold = func() (*headgate.Hold, error) { return l.Hold(t.Context(), "", 1, time.Minute) }
		cancel = func(h *headgate.Hold) (headgate.HoldResult, error) { return h.Cancel(t.Context()) }
	}
	h, err := hold()
	if errors.Is(err, headgate.ErrTooManyHolds) {
		return 0, true
	}
	if err != nil {
		t.Fatal(err)
	}
	result, err := cancel(h)
	if err != nil {
		t.Fatal(err)
	}
	return result.Remaining, false
}

// Under a limit that allows many attempts, failures stay charged and are not open holds.
// So the value of their key does not grow with each failure.
func TestFailuresAreNotOpenHolds(t *testing.T) {
	t.Parallel()
	for what, open := range map[string]func(t *testing.T) (headgate.Store, error){
		"memory": func(t *testing.T) (headgate.Store, error) { return newMemory(t), nil },
		"redis":  func(t *testing.T) (headgate.Store, error) { return mustOpenRedis(t, testserver.Redis(t)), nil },
		"memcached": func(t *testing.T) (headgate.Store, error) {
			return memcachedstore.New(&memcachedstore.Options{Timeout: time.Minute}, testserver.Memcached(t).Addr())
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			store, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			g := mustNew(t, store, &loginguard.Options{Limits: loginguard.Limits{Total: manyAttempts}})
			guess := func(n int) *loginguard.Attempt {
				return mustAttempt(t, g, noon, loginguard.Client{Addr: host(n, 1), Account: name(n)})
			}
			for n := range 50 {
				guess(n).Failed()
			}
			unreported := guess(50)
			if _, open := probeTotal(t, store, noon); !open {
				t.Error("an attempt without an outcome is not an open hold")
			}
			unreported.Failed()
			if remaining, open := probeTotal(t, store, noon); open || remaining != 2000-51 {
				t.Errorf("after 51 failures: %d attempts remain, open hold %v; want %d and false", remaining, open, 2000-51)
			}
		})
	}
}

// An unconfirmed success is charged as a failure, and is not an open hold either.
func TestUnconfirmedSuccessIsNotOpenHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := &eventRecorder{}, newMemory(t)
		g := mustNew(t, store, &loginguard.Options{Observer: h, Limits: loginguard.Limits{Total: manyAttempts}})
		h200 := g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for n := range 25 { // unknown clients
			serve(h200, form(fmt.Sprintf("192.0.%d.1", n), "bob", "guess"))
		}
		if got := h.kinds()[loginguard.KindUnconfirmed]; got != 5 {
			t.Errorf("%d of 25 successes unconfirmed; want 5", got)
		}
		if remaining, open := probeTotal(t, store, headgate.StoreClock); open || remaining != 2000-5 {
			t.Errorf("%d attempts remain, open hold %v; want %d and false", remaining, open, 2000-5)
		}
	})
}
