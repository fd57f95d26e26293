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

// While Redis is gone: nobody gets in, a share of the limits holds, or everybody may try.
func TestWhatHoldsWhileTheStoreIsAway(t *testing.T) {
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
			a, err := forms[c.on].AttemptAt(t.Context(), noon.Time(), bob)
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

// Whoever was let through unasked was charged nothing, and gets nothing back once the store is there again: else each success of his
// own would be one more guess. At the store's own time, at which it is asked whether it is back.
func TestNothingIsGivenBackThatWasNotCharged(t *testing.T) {
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
	own := loginguard.Client{Addr: host(1, 1), Account: "mallory"}
	for range 3 {
		mustTry(t, g, headgate.StoreClock, loginguard.Client{Addr: own.Addr, Account: "bob"}).Failed()
	}
	server.Stop()
	var unasked []*loginguard.Attempt
	for range 3 {
		unasked = append(unasked, mustTry(t, g, headgate.StoreClock, own))
	}
	server.Continue()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	left := func() headgate.Decision {
		d, err := address.PeekN(ctx, hashOf(t, own), 0)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := left()
	for before.Degraded != headgate.ReasonNone {
		before = left()
	}
	for _, a := range unasked {
		mustSucceed(t, headgate.StoreClock, a)
	}
	if d := left(); d.Remaining > before.Remaining || before.Remaining > 7 {
		t.Errorf("%d left of 10 after 3 failures, and %d after what was let through unasked; want no more", before.Remaining, d.Remaining)
	}
}

// hashOf is what the address of c is called in events.
func hashOf(t *testing.T, c loginguard.Client) string {
	t.Helper()
	h := &heard{}
	mustTry(t, mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h}), noon, c).Failed()
	return h.events[0].Address
}
