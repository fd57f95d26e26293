package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// hooks records the types of the events that it receives.
type hooks struct {
	mu    sync.Mutex
	types []string
}

func (h *hooks) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var e struct{ Type string }
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &e)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.types = append(h.types, e.Type)
}

func (h *hooks) has(kind string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.types, " "), kind)
}

// The service applies overrides of the store, bans keys and reports events.
func TestOverridesBansAndEvents(t *testing.T) {
	t.Parallel()
	server, receiver := testserver.Redis(t), new(hooks)
	hook := httptest.NewServer(receiver)
	defer hook.Close()
	file := filepath.Join(t.TempDir(), "f.yaml")
	text := fmt.Sprintf(`
store: redis://%s
overrides_poll: 10ms
log: {hash_secret: s}
http: {addr: "127.0.0.1:0"}
resp: {addr: off}
grpc: {addr: off}
admin: {addr: off}
events: {webhook: %q, webhook_secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, log: true}
policies:
  p: {limits: 5/1h, ban: {after: 3, for: 1h}}
`, server.Addr(), hook.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sources := config.Sources{Path: file}
	c, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	log := new(testserver.Log)
	s, err := service.New(&service.Options{Config: c, Sources: sources, Version: "test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	url := "http://" + awaitLog(t, log, `listener=http address=(\S+)`) + "/v1/check"
	check := func(key string) (status int, body string) {
		t.Helper()
		resp, err := http.Post(url, "application/json", strings.NewReader(`{"policy":"p","key":"`+key+`"}`)) //nolint:noctx // it answers immediately
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not reached: %s\n%s", what, log)
			}
		}
	}
	until("the key is banned", func() bool { _, body := check("busy"); return strings.Contains(body, "p:ban") })
	for _, kind := range []string{"limit.near", "limit.exhausted", "key.banned"} {
		until(kind, func() bool { return receiver.has(kind) })
	}
	other := anotherInstance(t, server)
	if _, err := other.Set(t.Context(), []overrides.Entry{{Policy: "p", Target: "key:vip", Limits: []string{"100/1h"}}}, overrides.Change{}); err != nil {
		t.Fatal(err)
	}
	until("the override of another instance applies", func() bool { _, body := check("vip"); return strings.Contains(body, `"limit":100`) })
	cancel()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Error(err)
	}
}

// anotherInstance returns the overrides of another process that uses the same store.
func anotherInstance(t *testing.T, server *testserver.RedisServer) *overrides.Live {
	t.Helper()
	store, err := redisstore.Open("redis://"+server.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(memstore.New(nil), &engine.Options{Policies: map[string]headgate.Policy{"p": headgate.MustPolicy("5/1h")}})
	if err != nil {
		t.Fatal(err)
	}
	return overrides.New(&overrides.Options{Store: store, Engine: e, Log: slog.New(slog.DiscardHandler)})
}
