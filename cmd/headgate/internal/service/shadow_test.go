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

// shadowOptions are options with which the policy "new" denies nothing.
var shadowOptions = map[string]engine.Options{
	"shadow":             {PolicyOptions: map[string]engine.PolicyOptions{"new": {Shadow: engine.All}}},
	"enforcement shadow": {Enforcement: engine.Shadow},
	"enforcement off":    {Enforcement: engine.Off},
}

// TestShadowModeIsInvisibleToClients sends requests to every API under a policy that
// would deny them. No response mentions the policy, or a wait that would slow a client
// down.
func TestShadowModeIsInvisibleToClients(t *testing.T) {
	t.Parallel()
	for name, opts := range shadowOptions {
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
			d := &apis{}
			d.startRedis(t, e)
			for range 3 {
				checkHeaderFields(t, e)
				reply, err := d.redis.Do(t.Context(), "HG.CHECK", "new", "k").Slice()
				if err != nil || reply[1] != int64(1) || reply[7] != int64(0) || len(reply[17].([]any)) > 0 {
					t.Errorf("RESP: got %v, %v want allowed, without a wait and an empty denied_by", reply, err)
				}
			}
		})
	}
}

// holdUnnoticed checks the APIs that send header fields.
func checkHeaderFields(t *testing.T, e *engine.Engine) {
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
		checkResponse(t, e, httpapi.New(e, nil), r, others)
	}
	r := httptest.NewRequest(http.MethodGet, forwardauth.Path+"/new", http.NoBody)
	r.RemoteAddr = "127.0.0.1:1"
	for field, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-Forwarded-For": "192.0.2.1"} {
		r.Header.Set(field, value)
	}
	checkResponse(t, e, proxies, r, "")
}

// unnoticed checks one API: its header fields are those of the enforced policy, if there
// is one.
func checkResponse(t *testing.T, e *engine.Engine, api http.Handler, r *http.Request, others string) {
	t.Helper()
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
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
			t.Errorf("%s: %s is %q, which may name %q only", r.URL.Path, field, got, others)
		}
	}
}
