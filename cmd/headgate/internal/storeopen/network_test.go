package storeopen_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/internal/testserver"
)

// urls returns a URL for each kind of store, by name.
func urls(t *testing.T) map[string]string {
	redis, secure := testserver.Redis(t), testserver.Redis(t, testserver.TLS())
	memcached, socket := testserver.Memcached(t), testserver.MemcachedUnix(t)
	all := map[string]string{
		"redis":            "redis://" + redis.Addr() + "/2?namespace=a&timeout=10s",
		"redis socket":     "redis+unix://" + redis.Socket(),
		"rediss":           "rediss://" + secure.Addr() + "?ca=" + secure.CAFile(),
		"memcached":        "memcached://" + memcached.Addr() + "/?namespace=a&timeout=10s&max_conns=8&max_waiting=100&max_tries=8&join=false",
		"two memcached":    "memcached://" + memcached.Addr() + "," + testserver.Memcached(t).Addr(),
		"memcached socket": "memcached://" + socket.Addr(),
	}
	if !testing.Short() {
		cluster, sentinel := testserver.Cluster(t, 3, 0), testserver.Sentinel(t)
		all["cluster"] = "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
		all["sentinel"] = "redis+sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName()
	}
	return all
}

func spendTwo(t *testing.T, store headgate.Store) {
	t.Helper()
	l, err := headgate.New(store, headgate.Policy{Limits: []headgate.Limit{headgate.MustParseLimit("1/1h")}, OnStoreError: headgate.FailClosed}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if d, err := l.Allow(t.Context(), "k"); err != nil || d.Allowed != want || d.Degraded != headgate.ReasonNone {
			t.Errorf("request %d: got %+v, error %v want allowed %v", i+1, d, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for name, url := range urls(t) {
		store, err := storeopen.Open(url, &storeopen.Options{Budget: 10 * time.Second})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		spendTwo(t, store)
		again, err := storeopen.Open(url, &storeopen.Options{Budget: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		l, _ := headgate.New(again, headgate.MustPolicy("1/1h"), nil)
		if d, err := l.Allow(t.Context(), "k"); err != nil || d.Allowed {
			t.Errorf("%s, opened again: got %+v, error %v, want the stored state", name, d, err)
		}
		if err := errors.Join(store.Close(), again.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A temporary store shares no state with other stores.
func TestOpenTemporary(t *testing.T) {
	t.Parallel()
	for name, url := range urls(t) {
		url, _, _ = strings.Cut(url, "?namespace")
		if name == "rediss" {
			continue // the URL requires its parameter ca
		}
		for range 2 {
			store, err := storeopen.OpenTemporary(url)
			if err != nil {
				t.Fatal(err)
			}
			spendTwo(t, store)
			if err := store.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// eventRecorder records store events.
type eventRecorder struct {
	mu     sync.Mutex
	events []headgate.StoreEvent
}

func (h *eventRecorder) ObserveStore(e headgate.StoreEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *eventRecorder) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// While the store is unavailable, rules decide by their failure mode within the
// budget, and the observer receives one event.
func TestFailureModes(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	server.Stop()
	defer server.Continue()
	observer := &eventRecorder{}
	store, err := storeopen.Open("redis://"+server.Addr(), &storeopen.Options{Budget: 20 * time.Millisecond, Instances: 2, Observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for mode, want := range map[headgate.OnStoreError][]bool{
		headgate.FailOpen:  {true, true, true, true},
		headgate.FailLocal: {true, true, false, false}, // half of 4
	} {
		l, err := headgate.New(store, headgate.Policy{Name: string(mode), Limits: []headgate.Limit{headgate.MustParseLimit("4/1h")}, OnStoreError: mode}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			d, err := l.Allow(t.Context(), "k")
			if err != nil || d.Allowed != want[i] || d.Degraded == headgate.ReasonNone {
				t.Errorf("%s, request %d: got %+v, error %v want allowed %v and degraded", mode, i+1, d, err, want[i])
			}
		}
	}
	if _, err := store.Bind(headgate.Rule{Limit: headgate.MustParseLimit("1/1s"), OnStoreError: headgate.FailLocal}); err != nil {
		t.Errorf("a rule with FailLocal: %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); observer.count() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the observer received no event")
		}
	}
	if observer.count() != 1 || !observer.events[0].Unavailable {
		t.Errorf("the observer received %+v, want one unavailable event", observer.events)
	}
	unknown, err := storeopen.Open("redis://"+server.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unknown.Close()
	if _, err := unknown.Bind(headgate.Rule{Limit: headgate.MustParseLimit("1/1s"), OnStoreError: headgate.FailLocal}); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("FailLocal with unknown number of instances: got error %v want ErrUnsupported", err)
	}
	if _, err := storeopen.Open("redis://"+server.Addr(), &storeopen.Options{Budget: time.Hour}); err == nil {
		t.Error("a budget of an hour: got no error")
	}
}

func TestCheckInvalidURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "mysql://u:secret@h", "redis://u:secret@h:0", "memory://?max_keys=1", "memcached://", "memcached://h:secret"} {
		var typed *storeopen.Error
		_, err := storeopen.Check(t.Context(), url)
		if !errors.As(err, &typed) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%q: got error %v want a *storeopen.Error without the password", url, err)
		}
	}
}
