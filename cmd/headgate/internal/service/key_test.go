package service_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// client is a client's request, as a program sees it without a proxy.
type client struct{ addr, method, apiKey, path string }

// byMiddleware sends the request to the middleware of the library.
func (c client) byMiddleware(h http.Handler) int {
	r := httptest.NewRequest(c.method, c.path, http.NoBody)
	r.RemoteAddr = "@"
	if addr, err := netip.ParseAddr(c.addr); err == nil {
		r.RemoteAddr = netip.AddrPortFrom(addr, 4711).String()
	}
	return c.send(h, r)
}

// byProxy sends the request to the service as a proxy does.
func (c client) byProxy(h http.Handler) int {
	r := httptest.NewRequest(http.MethodGet, forwardauth.Path+"/shared", http.NoBody)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-Forwarded-Method", c.method)
	r.Header.Set("X-Forwarded-Uri", c.path)
	r.Header.Set("X-Forwarded-For", c.addr)
	return c.send(h, r)
}

func (c client) send(h http.Handler, r *http.Request) int {
	if c.apiKey != "" {
		r.Header.Set("X-Api-Key", c.apiKey)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// TestMiddlewareAndServiceShareState applies one named policy in a program and in the
// service, over one store: both use the counters of the same client, and of no other.
func TestMiddlewareAndServiceShareState(t *testing.T) {
	t.Parallel()
	apiKey, ip := httplimit.Header("x-api-key"), httplimit.Address()
	long := strings.Repeat("k", 2000)
	for key, inProgram := range map[string]httplimit.Key{
		"ip":                         ip,
		"ip/48+method":               httplimit.Join(httplimit.AddressBlock(48), httplimit.Method()),
		"ip+method":                  httplimit.Join(ip, httplimit.Method()),
		"ip+path":                    httplimit.Join(ip, httplimit.Path()),
		"header:X-API-Key+ip":        httplimit.Join(apiKey, ip),
		"header:X-API-Key+method,ip": httplimit.First(httplimit.Join(apiKey, httplimit.Method()), ip),
		"header:X-API-Key, ip":       httplimit.First(apiKey, ip),
		"header:X-API-Key, ip+path":  httplimit.First(apiKey, httplimit.Join(ip, httplimit.Path())),
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			k, err := routing.ParseKey(key)
			if err != nil {
				t.Fatal(err)
			}
			s := newShared(t, k, inProgram)
			seen := map[string]bool{}
			for _, c := range []client{
				{"203.0.113.9", "GET", "acme", "/cart"},
				{"203.0.113.9", "POST", "", "/cart"},
				{"2001:db8:1:2::3", "GET", `a+b\`, "/cart+more"},
				{"2001:db8:1:2::4", "GET", "198.51.100.1", "/"},
				{"198.51.100.1", "GET", "", "/"},
				{"198.51.100.2", "GET", long, "/cart"},
				{"198.51.100.3", "GET", "header:x-api-key=acme", "/cart"},
				{"198.51.100.5", "GET", "", "/x/../Cart/%62;v=1"},
				{"198.51.100.4", "GET", "sha256=00", "/" + strings.Repeat("p", 900)},
			} {
				text := k.Of(&routing.Request{Method: c.method, Path: c.path, ClientAddr: netip.MustParseAddr(c.addr), Header: http.Header{"X-Api-Key": {c.apiKey}}})
				if seen[text] {
					continue // another client of the same budget
				}
				seen[text] = true
				s.mustShare(t, c)
				if got := s.byCheck(t, text); got != http.StatusTooManyRequests {
					t.Errorf("a check that names the key %.80q: got %d want 429", text, got)
				}
			}
		})
	}
}

// shared is one policy in a program and in the service.
type shared struct{ middleware, proxies, checks http.Handler }

func newShared(t *testing.T, inService routing.Key, inProgram httplimit.Key) *shared {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	policy := headgate.Policy{Name: "shared", Limits: []headgate.Limit{headgate.MustParseLimit("3/24h")}, Algorithm: headgate.SlidingLog}
	limit, err := httplimit.New(store, nil, httplimit.Charge{Policy: policy, Key: inProgram})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, &engine.Options{
		Policies: map[string]headgate.Policy{"shared": policy}, Routes: routing.NewTable(nil, map[string]routing.Key{"shared": inService}),
	})
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := forwardauth.New(e, &forwardauth.Options{Local: true})
	if err != nil {
		t.Fatal(err)
	}
	return &shared{limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), proxies, httpapi.New(e, nil)}
}

// mustShare consumes a client's budget of three alternately, and expects both to deny the
// fourth request.
func (s *shared) mustShare(t *testing.T, c client) {
	t.Helper()
	got := []int{c.byMiddleware(s.middleware), c.byProxy(s.proxies), c.byMiddleware(s.middleware), c.byProxy(s.proxies), c.byMiddleware(s.middleware)}
	for i, want := range []int{200, 200, 200, 429, 429} {
		if got[i] != want {
			t.Errorf("%.80v: got %v want 200 three times, then 429 by both", c, got)
			return
		}
	}
}

// byCheck sends a check of a key to the HTTP API.
func (s *shared) byCheck(t *testing.T, key string) int {
	t.Helper()
	body := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key)
	w := httptest.NewRecorder()
	s.checks.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(`{"policy":"shared","key":"`+body+`"}`)))
	return w.Code
}
