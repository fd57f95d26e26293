package loginguard_test

import (
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

// While Redis is gone: nobody gets in, a share of the limits holds, or everybody may try.
func TestWhatHoldsWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	store, err := fallback.New(mustOpenRedis(t, server), &fallback.Options{Local: memstore.New(nil), Instances: 1, Budget: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	forms := make(map[headgate.OnStoreError]*loginguard.Guard)
	for _, o := range []headgate.OnStoreError{headgate.FailClosed, headgate.FailLocal, headgate.FailOpen} {
		forms[o] = mustNew(t, store, &loginguard.Options{Name: string(o), OnStoreError: o})
		mustAnswer(t, forms[o].Protect(login), form("192.0.2.1", "bob", right), http.StatusSeeOther)
	}
	server.Kill()

	bob := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	if _, err := forms[headgate.FailClosed].Attempt(t.Context(), bob); !errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("closed: error %v; want %v", err, headgate.ErrStoreUnavailable)
	}
	mustAnswer(t, forms[headgate.FailClosed].Protect(login), form("192.0.2.1", "bob", right), http.StatusServiceUnavailable)
	for _, c := range []struct {
		on   headgate.OnStoreError
		want int
	}{{headgate.FailLocal, 5}, {headgate.FailOpen, 50}} {
		tries := 0
		for range 50 {
			a, err := forms[c.on].AttemptAt(t.Context(), noon, bob)
			if err != nil {
				t.Fatalf("%s: %v", c.on, err)
			}
			if a.Known() {
				t.Fatalf("%s: somebody is known, whom nobody can know", c.on)
			}
			if a.Allowed() {
				tries++
			}
		}
		if tries != c.want {
			t.Errorf("%s: %d of 50 tries at once are let through; want %d", c.on, tries, c.want)
		}
	}
	mustAnswer(t, forms[headgate.FailLocal].Protect(login), form("192.0.2.1", "bob", right), http.StatusSeeOther)
}
