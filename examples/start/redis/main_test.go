package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/examples/internal/expect"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// Two processes with one Redis allow four requests together.
func TestProcessesShareTheLimit(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	first, second := serve(t, open(t, redis.Addr())), serve(t, open(t, redis.Addr()))
	for i, want := range []int{200, 200, 200, 200, 429, 429} {
		url := first
		if i%2 == 1 {
			url = second
		}
		if got, _ := expect.Get(t, url); got != want {
			t.Errorf("request %d: got %d, want %d", i+1, got, want)
		}
	}
}

// Without Redis a process allows two requests: its share, half of the limit.
func TestLocalShareWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	redis.Kill()
	store, err := openStore("redis://" + redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, store)
	for i, want := range []int{200, 200, 429} {
		if got, _ := expect.Get(t, url); got != want {
			t.Errorf("request %d: got %d, want %d", i+1, got, want)
		}
	}
}

// open returns the store of openStore, with a time budget that a slow machine keeps.
func open(t *testing.T, addr string) headgate.Store {
	t.Helper()
	redis, err := redisstore.Open("redis://"+addr, &redisstore.Options{Namespace: "shop", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	store, err := fallback.New(redis, &fallback.Options{Local: memstore.New(nil), Instances: 2, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func serve(t *testing.T, store headgate.Store) string {
	t.Helper()
	t.Cleanup(func() { _ = store.Close() })
	handler, err := newHandler(store)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
