package overrides_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// instance is the part of one process of the service that the tests need.
type instance struct {
	*overrides.Live
	engine *engine.Engine
	log    *testserver.Log
}

// newInstance returns an instance with the policy “api”, which is not running.
func newInstance(t testing.TB, store headgate.Store, opts overrides.Options) *instance {
	t.Helper()
	policy := headgate.MustPolicy("5/1h")
	policy.Algorithm = headgate.FixedWindow
	e, err := engine.New(store, &engine.Options{Policies: map[string]headgate.Policy{"api": policy}})
	if err != nil {
		t.Fatal(err)
	}
	log := new(testserver.Log)
	opts.Store, opts.Engine, opts.Log = store, e, slog.New(slog.NewTextHandler(log, nil))
	return &instance{overrides.New(&opts), e, log}
}

// run runs an instance until the test ends.
func (i *instance) run(t *testing.T) *instance {
	t.Helper()
	i.Load(t.Context())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return i
}

// limitOf returns the limit that applies to a key.
func (i *instance) limitOf(key string) string {
	var a engine.Answer
	check := []engine.Check{{Policy: "api", Key: key}}
	if err := i.engine.Decide(context.Background(), headgate.Peek, check, &a); err != nil {
		return err.Error()
	}
	return a.Rules[0].Limit.String()
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

func entry(target, limit string) overrides.Entry {
	return overrides.Entry{Policy: "api", Target: target, Limits: []string{limit}}
}

func set(t *testing.T, i *instance, entries ...overrides.Entry) {
	t.Helper()
	if _, err := i.Set(t.Context(), entries, overrides.Change{Author: "ops", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
}

func openRedis(t testing.TB, url string) headgate.Store {
	t.Helper()
	store, err := redisstore.Open(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// An override that is set at one of three instances applies there immediately, and at
// the others after their next poll. The test prints the time.
func TestOverrideAppliesAtEveryInstance(t *testing.T) {
	t.Parallel()
	redis, memcached := testserver.Redis(t), testserver.Memcached(t)
	for name, open := range map[string]func(t *testing.T) headgate.Store{
		"redis": func(t *testing.T) headgate.Store { return openRedis(t, "redis://"+redis.Addr()) },
		"memcached": func(t *testing.T) headgate.Store {
			store, err := memcachedstore.New(nil, memcached.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []*instance
			for range 3 {
				all = append(all, newInstance(t, open(t), overrides.Options{}).run(t))
			}
			var longest time.Duration
			apply := func(at *instance, target, key, limit, want string) {
				t.Helper()
				set(t, at, entry(target, limit))
				begin := time.Now()
				if got := at.limitOf(key); got != want {
					t.Errorf("at the instance that set it: got %s want %s", got, want)
				}
				for _, i := range all {
					eventually(t, key+" has the limit "+want, func() bool { return i.limitOf(key) == want })
				}
				longest = max(longest, time.Since(begin))
			}
			apply(all[0], "key:k", "k", "50/1h", "50/h")
			apply(all[1], "key:k", "k", "0/s", "0/s")
			apply(all[2], "pattern:acme-*", "acme-1", "unlimited", "unlimited")
			apply(all[0], "network:10.0.0.0/8", "10.1.2.3", "7/1h", "7/h")
			apply(all[1], "policy", "other", "9/1h", "9/h")
			removed, err := all[2].Remove(t.Context(), []overrides.ID{{"api", "key:k"}, {"api", "key:none"}}, overrides.Change{})
			if err != nil || len(removed) != 1 || removed[0].Author != "ops" || removed[0].Reason != "test" {
				t.Errorf("remove: got %+v, error %v want one entry of ops", removed, err)
			}
			for _, i := range all {
				eventually(t, "k has the limit of the policy", func() bool { return i.limitOf("k") == "9/h" })
			}
			t.Logf("longest time until an override applied at all 3 instances: %v", longest.Round(time.Millisecond))
			first := all[0].List()
			for _, i := range all {
				if got := i.List(); got.Revision != 6 || !slices.EqualFunc(got.Entries, first.Entries, func(a, b overrides.Entry) bool { return a.ID() == b.ID() }) {
					t.Errorf("got revision %d, %v want 6, %v", got.Revision, got.Entries, first.Entries)
				}
			}
		})
	}
}

// An entry ends at its time, without a call of the store.
func TestOverrideEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		i := newInstance(t, store, overrides.Options{Every: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		go i.Run(ctx)
		short, long := entry("key:short", "50/1h"), entry("key:long", "60/1h")
		short.Until, long.Until = time.Now().Add(10*time.Second), time.Now().Add(20*time.Second)
		set(t, i, short, long, entry("key:always", "70/1h"))
		mustHave := func(short, long string) {
			t.Helper()
			synctest.Wait()
			if s, l, a := i.limitOf("short"), i.limitOf("long"), i.limitOf("always"); s != short || l != long || a != "70/h" {
				t.Errorf("got %s, %s, %s want %s, %s, 70/h", s, l, a, short, long)
			}
		}
		mustHave("50/h", "60/h")
		time.Sleep(10*time.Second - time.Nanosecond)
		mustHave("50/h", "60/h")
		time.Sleep(2 * time.Millisecond)
		mustHave("5/h", "60/h")
		if got := i.List(); len(got.Entries) != 2 || i.Status().Entries != 2 {
			t.Errorf("got %d entries want 2", len(got.Entries))
		}
		time.Sleep(10 * time.Second)
		mustHave("5/h", "5/h")
		cancel()
		synctest.Wait()
	})
}

// Entries that instances set concurrently are all kept.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	const instances, changes = 4, 10
	var wg sync.WaitGroup
	for n := range instances {
		i := newInstance(t, openRedis(t, "redis://"+server.Addr()), overrides.Options{})
		wg.Go(func() {
			for c := range changes {
				_, err := i.Set(t.Context(), []overrides.Entry{entry(fmt.Sprintf("key:%d-%d", n, c), "6/1h"), entry("key:shared", "7/1h")}, overrides.Change{})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	i := newInstance(t, openRedis(t, "redis://"+server.Addr()), overrides.Options{})
	i.Load(t.Context())
	if got := i.List(); len(got.Entries) != instances*changes+1 || got.Revision != instances*changes {
		t.Errorf("got %d entries at revision %d want %d at %d", len(got.Entries), got.Revision, instances*changes+1, instances*changes)
	}
}

// While the store is unavailable, the last known entries apply. If it has lost the
// entries, an instance that knows them saves them again, with those that were set since.
func TestStoreUnavailableAndLost(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	a := newInstance(t, openRedis(t, "redis://"+server.Addr()), overrides.Options{Every: 20 * time.Millisecond}).run(t)
	set(t, a, entry("key:k", "50/1h"))
	server.Kill()
	eventually(t, "a poll fails", func() bool { return a.Status().Err != nil })
	if got := len(a.List().Entries); got != 1 {
		t.Errorf("while the store is unavailable: got %d entries want 1", got)
	}
	if _, err := a.Set(t.Context(), []overrides.Entry{entry("key:l", "51/1h")}, overrides.Change{}); !errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("set while the store is unavailable: got error %v want ErrStoreUnavailable", err)
	}
	server.Start() // it has no data
	eventually(t, "the entries are saved again", func() bool { return a.Status().Restored == 1 && a.limitOf("k") == "50/h" })
	eventually(t, "a poll succeeds", func() bool { return a.Status().Err == nil })
	b := newInstance(t, openRedis(t, "redis://"+server.Addr()), overrides.Options{})
	b.Load(t.Context())
	if got := b.limitOf("k"); got != "50/h" {
		t.Errorf("a new instance: got %s want 50/h", got)
	}
	for message, times := range map[string]int{
		"overrides cannot be read from the store": 1, "overrides are current again": 1, "store had lost overrides; saved again": 1,
	} {
		if got := strings.Count(a.log.String(), message); got != times {
			t.Errorf("got %q %d times want %d:\n%s", message, got, times, a.log)
		}
	}
}

// An instance that did not know the lost entries may have set one before they were saved
// again. Both are kept, and removed entries stay removed.
func TestLostEntriesAreMerged(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	a := newInstance(t, openRedis(t, "redis://"+server.Addr()), overrides.Options{})
	set(t, a, entry("key:old", "50/1h"), entry("key:removed", "51/1h"))
	if _, err := a.Remove(t.Context(), []overrides.ID{{"api", "key:removed"}}, overrides.Change{}); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "FLUSHALL")
	lost := time.Now().UnixMilli()
	eventually(t, "the next millisecond, because the times of entries are whole ones", func() bool { return time.Now().UnixMilli() > lost })
	b := newInstance(t, openRedis(t, "redis://"+server.Addr()), overrides.Options{})
	set(t, b, entry("key:new", "52/1h"))
	a.Load(t.Context())
	b.Load(t.Context())
	for _, i := range []*instance{a, b} {
		if o, n, r := i.limitOf("old"), i.limitOf("new"), i.limitOf("removed"); o != "50/h" || n != "52/h" || r != "5/h" {
			t.Errorf("got %s, %s, %s want 50/h, 52/h, 5/h", o, n, r)
		}
	}
}

func TestSetErrors(t *testing.T) {
	t.Parallel()
	i := newInstance(t, memstore.New(nil), overrides.Options{})
	past, long := entry("key:k", "5/s"), entry("key:k", "5/s")
	past.Until, long.Reason = time.Now().Add(-time.Second), strings.Repeat("x", 513)
	for field, e := range map[string]overrides.Entry{
		"policy": {Target: "key:k", Limits: []string{"5/s"}}, "target": entry("k", "5/s"), "limits": entry("key:k", "x"),
		"until": past, "reason": long,
	} {
		_, err := i.Set(t.Context(), []overrides.Entry{entry("key:ok", "5/s"), e}, overrides.Change{})
		var wrong *overrides.EntryError
		if !errors.As(err, &wrong) || wrong.Index != 1 || wrong.Field != field || !errors.Is(err, overrides.ErrInvalid) {
			t.Errorf("%s: got error %v want one of entry 2", field, err)
		}
	}
	two := entry("key:k", "unlimited")
	two.Limits = append(two.Limits, "5/s")
	if _, err := i.Set(t.Context(), []overrides.Entry{two}, overrides.Change{}); !errors.Is(err, overrides.ErrInvalid) {
		t.Errorf("unlimited with another limit: got error %v want ErrInvalid", err)
	}
	if got := i.List(); len(got.Entries) != 0 || got.Revision != 0 {
		t.Errorf("after errors: got %+v want nothing", got)
	}
	many := make([]overrides.Entry, overrides.MaxEntries)
	for n := range many {
		many[n] = entry(fmt.Sprintf("key:%d", n), "5/s")
	}
	set(t, i, many...)
	if _, err := i.Set(t.Context(), []overrides.Entry{entry("key:x", "5/s")}, overrides.Change{}); !errors.Is(err, overrides.ErrTooMany) {
		t.Errorf("one more than the maximum: got error %v want ErrTooMany", err)
	}
	set(t, i, entry("key:7", "6/s"))
	if got := i.limitOf("7"); got != "6/s" {
		t.Errorf("a replaced entry: got %s want 6/s", got)
	}
}

// An entry of a policy that does not exist is kept and reported.
func TestIgnoredEntries(t *testing.T) {
	t.Parallel()
	i := newInstance(t, memstore.New(nil), overrides.Options{})
	set(t, i, overrides.Entry{Policy: "apo", Target: "key:k", Limits: []string{"5/s"}}, entry("key:k", "5/s burst 9"))
	got := i.List()
	if len(got.Entries) != 2 || len(got.Ignored) != 2 || got.Ignored[1].ID.Policy != "apo" || !errors.Is(got.Ignored[1].Err, engine.ErrUnknownPolicy) {
		t.Errorf("got %+v want two entries without an effect", got)
	}
	if s := i.Status(); s.Entries != 2 || s.Ignored != 2 || !s.Supported {
		t.Errorf("got status %+v", s)
	}
	if strings.Contains(i.log.String(), "key:k") {
		t.Errorf("the log contains a key:\n%s", i.log)
	}
}

// plain is a store without documents.
type plain struct{ headgate.Store }

func TestStoreWithoutDocuments(t *testing.T) {
	t.Parallel()
	i := newInstance(t, plain{memstore.New(nil)}, overrides.Options{})
	i.Load(t.Context())
	i.Run(t.Context())
	if _, err := i.Set(t.Context(), []overrides.Entry{entry("key:k", "5/s")}, overrides.Change{}); !errors.Is(err, overrides.ErrUnsupported) {
		t.Errorf("set: got error %v want ErrUnsupported", err)
	}
	if _, err := i.Remove(t.Context(), []overrides.ID{{"api", "key:k"}}, overrides.Change{}); !errors.Is(err, overrides.ErrUnsupported) {
		t.Errorf("remove: got error %v want ErrUnsupported", err)
	}
	if i.Status().Supported {
		t.Error("the status is that of a store with documents")
	}
}

// A document that this version cannot read changes nothing.
func TestUnreadableDocument(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	i := newInstance(t, store, overrides.Options{})
	set(t, i, entry("key:k", "50/1h"))
	known, err := store.LoadDocument(t.Context(), "overrides", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveDocument(t.Context(), "overrides", known.Version, []byte("something else")); err != nil {
		t.Fatal(err)
	}
	i.Load(t.Context())
	if i.Status().Err == nil || i.limitOf("k") != "50/h" {
		t.Errorf("got error %v and %s want an error and 50/h", i.Status().Err, i.limitOf("k"))
	}
	if _, err := i.Set(t.Context(), []overrides.Entry{entry("key:l", "51/1h")}, overrides.Change{}); err == nil {
		t.Error("set: got no error")
	}
}
