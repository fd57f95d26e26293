package bans_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/bans"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var settings = engine.Ban{After: 20, Within: time.Hour, For: time.Hour, Max: 4 * time.Hour}

// observer is the observer of an engine's view.
type observer struct{ *bans.Watcher }

func (observer) Begin() int64 { return 1 }

// instance is the part of one process of the service that the tests need.
type instance struct {
	engine *engine.Engine
	bans   *bans.Watcher
	log    *testserver.Log

	mu    sync.Mutex
	begun []bans.Ban
}

// newInstance returns an instance whose watcher runs until the test ends.
func newInstance(t *testing.T, store headgate.Store, shadow engine.Percent, opts bans.Options) *instance {
	t.Helper()
	e, err := engine.New(store, &engine.Options{
		Policies: map[string]headgate.Policy{
			"p": headgate.MustPolicy("1/1h", "100/24h"), "other": headgate.MustPolicy("1/1h"),
		},
		PolicyOptions: map[string]engine.PolicyOptions{"p": {Ban: settings, Shadow: shadow}},
	})
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{log: new(testserver.Log)}
	opts.Log, opts.Hash = slog.New(slog.NewTextHandler(i.log, nil)), func(_, key string) string { return "hash of " + key[:1] }
	opts.Begun = func(b bans.Ban) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.begun = append(i.begun, b)
	}
	i.bans = bans.New(&opts)
	i.engine = e.WithObserver(observer{i.bans}, 0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); i.bans.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return i
}

func (i *instance) bansBegun() []bans.Ban {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]bans.Ban(nil), i.begun...)
}

func (i *instance) take(t *testing.T, policy, key string) headgate.Decision {
	t.Helper()
	var a engine.Answer
	if err := i.engine.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: policy, Key: key, Cost: 1}}, &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Shadows) > 0 {
		return a.Shadows[0].Decision
	}
	return a.Decision
}

func isBanned(d headgate.Decision) bool { return slices.Contains(d.DeniedBy, "p:ban") }

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

// An attack on three instances bans the key once, and causes few calls of the store.
func TestAttackBansOnce(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	var all []*instance
	for range 3 {
		store, err := redisstore.Open("redis://"+server.Addr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		all = append(all, newInstance(t, store, 0, bans.Options{}))
	}
	var attack sync.WaitGroup
	for _, i := range all {
		attack.Go(func() {
			eventually(t, "the key is banned at every instance", func() bool { return isBanned(i.take(t, "p", "attacker")) })
		})
	}
	attack.Wait()
	bansBegun := func() (n int) {
		for _, i := range all {
			n += len(i.bansBegun())
		}
		return n
	}
	eventually(t, "the instance that began the ban reports it", func() bool { return bansBegun() > 0 })
	for _, i := range all {
		if d := i.take(t, "p", "customer"); d.Limit != 1 && d.Limit != 100 {
			t.Errorf("another key: got limit %d", d.Limit)
		}
	}
	if begun := bansBegun(); begun != 1 {
		t.Errorf("got %d bans want 1", begun)
	}
}

// A policy without bans, an allowed request and a peek do not count. The log has no key.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	i := newInstance(t, memstore.New(nil), 0, bans.Options{})
	for range 30 {
		i.take(t, "other", "k")
	}
	i.take(t, "p", "secret")
	var a engine.Answer
	for range 30 {
		if err := i.engine.Decide(t.Context(), headgate.Peek, []engine.Check{{Policy: "p", Key: "secret", Cost: 1}}, &a); err != nil {
			t.Fatal(err)
		}
	}
	for range settings.After {
		if d := i.take(t, "p", "secret"); d.Allowed || isBanned(d) {
			t.Fatalf("got %+v want denied by a limit", d)
		}
	}
	eventually(t, "the key is banned", func() bool { return len(i.bansBegun()) == 1 })
	if s := i.bans.Stats(); s.Counted != uint64(settings.After) || s.Begun["p"] != 1 || s.Dropped+s.Failed != 0 {
		t.Errorf("got %+v want %d counted", s, settings.After)
	}
	if b := i.bansBegun()[0]; b != (bans.Ban{Policy: "p", Key: "secret", Level: 1, For: time.Hour}) {
		t.Errorf("got %+v", b)
	}
	if log := i.log.String(); strings.Contains(log, "secret") || !strings.Contains(log, `msg="key banned" policy=p key="hash of s" for=1h0m0s ban=1`) {
		t.Errorf("got the log\n%s", log)
	}
}

func TestShadowBan(t *testing.T) {
	t.Parallel()
	i := newInstance(t, memstore.New(nil), engine.All, bans.Options{})
	eventually(t, "the key would be banned", func() bool { return isBanned(i.take(t, "p", "k")) })
	eventually(t, "the ban is logged", func() bool { return strings.Contains(i.log.String(), "key would be banned (shadow mode)") })
	if begun := i.bansBegun(); len(begun) != 1 || !begun[0].Shadow {
		t.Errorf("got %+v want one in shadow mode", begun)
	}
}

// The memory for keys is bounded, and a store that fails loses denials, not requests.
func TestBoundsAndFailures(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	i := newInstance(t, store, 0, bans.Options{MaxKeys: 10, Gather: time.Hour})
	for n := range 20 {
		key := string(rune('a' + n))
		i.take(t, "p", key)
		i.take(t, "p", key)
	}
	if s := i.bans.Stats(); s.Dropped != 10 {
		t.Errorf("got %d dropped want 10", s.Dropped)
	}
	failing := newInstance(t, store, 0, bans.Options{Gather: 50 * time.Millisecond})
	failing.take(t, "p", "z")
	failing.take(t, "p", "z")
	_ = store.Close()
	eventually(t, "the denial is not counted", func() bool { return failing.bans.Stats().Failed == 1 })
}
