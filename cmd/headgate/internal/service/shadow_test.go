package service_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/memstore"
)

// watching are ways to have nothing denied: each over the same policies, "new" of which
// is to be watched.
var watching = map[string]engine.Options{
	"shadow":             {PolicyOptions: map[string]engine.PolicyOptions{"new": {Shadow: engine.All}}},
	"enforcement shadow": {Enforcement: engine.Shadow},
	"enforcement off":    {Enforcement: engine.Off},
}

// TestWhatOnlyWatchesIsNotNoticed asks every door under a policy that would deny: clients
// are told nothing that says so, or that they would slow down for.
func TestWhatOnlyWatchesIsNotNoticed(t *testing.T) {
	t.Parallel()
	for name, opts := range watching {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memstore.New(nil)
			t.Cleanup(func() { _ = store.Close() })
			opts.Policies = map[string]headgate.Policy{
				"new": {Limits: []headgate.Limit{headgate.MustParseLimit("1/24h")}},
				"old": {Limits: []headgate.Limit{headgate.MustParseLimit("9/24h")}},
			}
			e, err := engine.New(store, &opts)
			if err != nil {
				t.Fatal(err)
			}
			d := &doors{}
			d.openRedis(t, e)
			for range 3 {
				holdUnnoticed(t, e)
				reply, err := d.redis.Do(t.Context(), "HG.CHECK", "new", "k").Slice()
				if err != nil || reply[1] != int64(1) || reply[7] != int64(0) || len(reply[17].([]any)) > 0 {
					t.Errorf("RESP: got %v, %v want allowed, without a wait and denied by none", reply, err)
				}
			}
		})
	}
}

// holdUnnoticed asks the doors that have header fields.
func holdUnnoticed(t *testing.T, e *engine.Engine) {
	t.Helper()
	proxies, err := forwardauth.New(e, &forwardauth.Options{Local: true})
	if err != nil {
		t.Fatal(err)
	}
	for body, others := range map[string]string{
		`{"policy":"new","key":"k"}`: "",
		`{"checks":[{"policy":"old","key":"k","cost":0},{"policy":"new","key":"k"}]}`: `"old"`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(body))
		unnoticed(t, e, httpapi.New(e, nil), r, others)
	}
	r := httptest.NewRequest(http.MethodGet, forwardauth.Path+"/new", http.NoBody)
	r.RemoteAddr = "127.0.0.1:1"
	for field, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-Forwarded-For": "192.0.2.1"} {
		r.Header.Set(field, value)
	}
	unnoticed(t, e, proxies, r, "")
}

// unnoticed asks one door: its fields are those of the policy that counts beside, if
// there is one.
func unnoticed(t *testing.T, e *engine.Engine, door http.Handler, r *http.Request, others string) {
	t.Helper()
	w := httptest.NewRecorder()
	door.ServeHTTP(w, r)
	answer := w.Result()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Retry-After") != "" || strings.Contains(string(body), `"allowed":false`) {
		t.Errorf("%s: got %s, %v, %s want 200 and no wait", r.URL.Path, answer.Status, answer.Header, body)
	}
	if enforcement := e.ActiveConfig().Enforcement(); enforcement == engine.Off || enforcement == engine.Shadow {
		others = ""
	}
	for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
		got := answer.Header.Get(field)
		if name, _, _ := strings.Cut(got, ";"); name != others || strings.Contains(got, "new") {
			t.Errorf("%s: %s is %q, which may tell of %q only", r.URL.Path, field, got, others)
		}
	}
}
