package forwardauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/memstore"
)

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// requireDecision checks the status and X-RateLimit-Decision.
func requireDecision(t *testing.T, what string, r *http.Response, status int, decision string) {
	t.Helper()
	if got := r.Header.Values("X-RateLimit-Decision"); r.StatusCode != status || len(got) != 1 || got[0] != decision {
		t.Errorf("%s: got %d, decision %q; want %d, %s", what, r.StatusCode, got, status, decision)
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	for left := 2; left >= 0; left-- {
		r := ask(h, forwardauth.Path, login()...)
		requireDecision(t, "a login", r, 200, "allow")
		if got := r.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("Cache-Control: got %q, and a cache may let others pass by it", got)
		}
		if got, want := r.Header.Get("RateLimit"), fmt.Sprintf(`"login";r=%d;t=86400`, left); got != want || body(t, r) != "" {
			t.Errorf("RateLimit: got %s want %s, and no body", got, want)
		}
	}
	r := ask(h, forwardauth.Path, login()...)
	requireDecision(t, "a login too many", r, 429, "deny")
	for name, want := range map[string]string{
		"Retry-After": "86400", "Cache-Control": "no-store", "Content-Type": "application/problem+json",
		"RateLimit": `"login";r=0;t=86400`, "RateLimit-Policy": `"login";q=3;w=86400`,
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: got %q want %q", name, got, want)
		}
	}
	want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
		`"violated-policies":["login"]}`
	if got := body(t, r); got != want {
		t.Errorf("body:\n got %s\nwant %s", got, want)
	}
	if _, err := httpsfv.UnmarshalList(r.Header.Values("RateLimit")); err != nil {
		t.Error(err)
	}
	requireDecision(t, "another method", ask(h, forwardauth.Path, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/login"), 200, "allow")
}

// Both formats of description lead to the same key, and fields of the other format are
// ignored.
func TestFormats(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	for i, fields := range [][]string{
		login(),
		{
			"X-Original-Method", "POST", "X-Original-URI", "/login?x", "X-Real-IP", "203.0.113.9",
			"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "a, b",
		},
		{
			"X-Forwarded-Method", "post", "X-Forwarded-Uri", "https://shop.test/login", "X-Forwarded-Proto", "https",
			"X-Forwarded-For", "6.6.6.6, 203.0.113.9, 10.9.9.9", "X-Real-IP", "6.6.6.6",
		},
	} {
		r := ask(h, forwardauth.Path, fields...)
		requireDecision(t, fmt.Sprintf("description %d", i), r, 200, "allow")
		if got, want := r.Header.Get("RateLimit"), fmt.Sprintf(`"login";r=%d;t=86400`, 2-i); got != want {
			t.Errorf("description %d: got %s want %s", i, got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	for _, c := range []struct {
		fields []string
		limits bool
	}{
		{[]string{"X-Forwarded-Host", "a.example.com"}, true},
		{[]string{"X-Forwarded-Host", "A.Example.com:8443"}, true},
		{[]string{"X-Forwarded-Host", "other.test"}, false},
		{[]string{"X-Forwarded-Uri", "http://a.example.com"}, true},
		{[]string{"X-Forwarded-Uri", "http://a.example.com:80/x?y"}, true},
		{[]string{"X-Forwarded-Uri", "http://a.example.com/x", "X-Forwarded-Host", "other.test"}, false},
		{[]string{"X-Forwarded-Uri", "/http://a.example.com/x"}, false},
		{[]string{"X-Forwarded-Uri", "*"}, false},
	} {
		fields := append([]string{"X-Forwarded-Method", "OPTIONS", "X-Forwarded-For", "203.0.113.9"}, c.fields...)
		if !strings.Contains(strings.Join(c.fields, " "), "Uri") {
			fields = append(fields, "X-Forwarded-Uri", "/")
		}
		r := ask(h, forwardauth.Path, fields...)
		requireDecision(t, fmt.Sprint(c.fields), r, 200, "allow")
		if got := r.Header.Get("RateLimit") != ""; got != c.limits {
			t.Errorf("%q: limited is %t, want %t", c.fields, got, c.limits)
		}
	}
	original := []string{"X-Original-Method", "GET", "X-Original-URI", "/", "X-Real-IP", "203.0.113.9"}
	r := ask(h, "http://b.example.com"+forwardauth.Path, original...)
	if r.Header.Get("RateLimit") == "" {
		t.Error("the Host of the request is not that of the original")
	}
}

func TestRoutesAndPolicies(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	describe := func(uri string, more ...string) []string {
		return append([]string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", uri, "X-Forwarded-For", "203.0.113.9"}, more...)
	}
	for _, c := range []struct {
		what, path string
		fields     []string
		status     int
		policies   string
	}{
		{"no route", "", describe("/free"), 200, ""},
		{"a route without policies", "", describe("/health"), 200, ""},
		{"all policies of a route", "", describe("/api/x", "X-API-Key", "acme"), 200, `"api";q=2;w=86400, "plain";q=1000000;w=86400`},
		{"the same key", "", describe("/api/y", "X-API-Key", "acme"), 200, `"api";q=2;w=86400, "plain";q=1000000;w=86400`},
		{"none is charged", "", describe("/api/y", "X-API-Key", "acme"), 429, `"api";q=2;w=86400, "plain";q=1000000;w=86400`},
		{"a policy by name", "/plain", describe("/free"), 200, `"plain";q=1000000;w=86400`},
		{"a slash and no name", "/", describe("/free"), 200, ""},
		{"an unknown policy", "/nonsense", describe("/free"), 404, ""},
		{"a path below", "/plain/x", describe("/free"), 404, ""},
		{"a policy that watches", "", describe("/watched"), 200, ``},
		{"a policy that would deny", "", describe("/watched"), 200, ``},
	} {
		r := ask(h, forwardauth.Path+c.path, c.fields...)
		if got := r.Header.Get("RateLimit-Policy"); r.StatusCode != c.status || got != c.policies {
			t.Errorf("%s: got %d, %s want %d, %s", c.what, r.StatusCode, got, c.status, c.policies)
		}
	}
	r := ask(h, forwardauth.Path+"/plain", describe("/free")...)
	if got := r.Header.Get("RateLimit"); !strings.HasPrefix(got, `"plain";r=999996;`) {
		t.Errorf("after 2 + 1 requests under plain, and one that api denied: got %s, want 999996 left", got)
	}
}

// A client gets no budget of its own, and escapes no route, with a spelling of a path
// that the program behind the proxy may serve as /login.
func TestPathSpellings(t *testing.T) {
	t.Parallel()
	key, err := routing.ParseKey("ip+path")
	if err != nil {
		t.Fatal(err)
	}
	for _, spelling := range []string{
		"/q%d%%2fb/../login", "/q%d%%5cb/../login", `/q%d\b/../login`, "/login;x=%%2f%d", "/login;x=%%5c%d", `/login;x\%d`, "/x%d#/../login",
	} {
		store := memstore.New(nil)
		t.Cleanup(func() { _ = store.Close() })
		e := must(engine.New(store, &engine.Options{
			Policies: map[string]headgate.Policy{"login": headgate.MustPolicy("3/24h")}, TrustedProxies: proxied.TrustedProxies,
			Routes: routing.NewTable([]routing.Route{{Path: must(routing.ParsePath("/login")), Policies: []string{"login"}}}, map[string]routing.Key{"login": key}),
		}))
		h := must(forwardauth.New(e, &proxied.Options))
		for n := range 6 {
			want := http.StatusOK
			if n >= 3 {
				want = http.StatusTooManyRequests
			}
			r := ask(h, forwardauth.Path, "X-Forwarded-Method", "POST", "X-Forwarded-Uri", fmt.Sprintf(spelling, n), "X-Forwarded-For", "203.0.113.9")
			if r.StatusCode != want {
				t.Errorf("%s, request %d: got %d want %d", spelling, n, r.StatusCode, want)
			}
		}
	}
}

func TestDenyParameter(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	for range 3 {
		ask(h, forwardauth.Path, login()...)
	}
	for query, want := range map[string]int{
		"": 429, "?deny=429": 429, "?deny=403": 403, "?deny=503": 503, "?x=y&deny=403&z": 403, "?x=deny=403": 429, "?&&": 429,
	} {
		r := ask(h, forwardauth.Path+query, login()...)
		requireDecision(t, query, r, want, "deny")
		var p struct{ Status int }
		if err := json.Unmarshal([]byte(body(t, r)), &p); err != nil || p.Status != want {
			t.Errorf("%s: the body has status %d, error %v", query, p.Status, err)
		}
	}
	for _, query := range []string{
		"?deny=200", "?deny=", "?deny=404", "?deny=0403", "?deny=403&deny=403", "?deny=4e2", "?deny=-403",
	} {
		requireDecision(t, query, ask(h, forwardauth.Path+query, login()...), 400, "error")
	}
}

func TestInvalidDescriptions(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	long := "/" + strings.Repeat("a", 8<<10)
	host := func(value string) []string {
		return []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-Host", value}
	}
	original := func(name, value string) []string {
		return []string{"X-Original-Method", "POST", "X-Original-URI", "/login", name, value}
	}
	for _, c := range []struct {
		what   string
		fields []string
		status int
		says   string
	}{
		{"nothing", nil, 400, "X-Forwarded-Method"},
		{"an address alone", []string{"X-Forwarded-For", "203.0.113.9", "X-Real-IP", "203.0.113.9"}, 400, "X-Original-Method"},
		{"no method", []string{"X-Forwarded-Uri", "/"}, 400, "X-Forwarded-Method"},
		{"no URI", []string{"X-Forwarded-Method", "GET"}, 400, "X-Forwarded-Uri"},
		{"no original method", []string{"X-Original-URI", "/"}, 400, "X-Original-Method"},
		{"no original URI", []string{"X-Original-Method", "GET"}, 400, "X-Original-URI"},
		{"an empty URI", []string{"X-Original-Method", "GET", "X-Original-URI", ""}, 400, "X-Original-URI"},
		{"an empty method", login("X-Forwarded-Method", "")[8:], 400, "X-Forwarded-Method"},
		{"both ways", login("X-Original-URI", "/login"), 400, "twice"},
		{"both ways, other parts", []string{"X-Forwarded-Uri", "/login", "X-Original-Method", "POST"}, 400, "twice"},
		{"two methods", login("X-Forwarded-Method", "GET"), 400, "X-Forwarded-Method"},
		{"two URIs", login("X-Forwarded-Uri", "/login"), 400, "X-Forwarded-Uri"},
		{"two hosts", login("X-Forwarded-Host", "shop.test"), 400, "X-Forwarded-Host"},
		{"two schemes", login("X-Forwarded-Proto", "http", "X-Forwarded-Proto", "http"), 400, "X-Forwarded-Proto"},
		{"a list of hosts", host("a.test, b.test"), 400, "X-Forwarded-Host"},
		{"a long host", host(strings.Repeat("a", 300)), 400, "X-Forwarded-Host"},
		{"a method of two words", []string{"X-Forwarded-Method", "GET /", "X-Forwarded-Uri", "/"}, 400, "X-Forwarded-Method"},
		{"a long method", []string{"X-Forwarded-Method", strings.Repeat("A", 33), "X-Forwarded-Uri", "/"}, 400, "X-Forwarded-Method"},
		{"a relative URI", []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "login"}, 400, "X-Forwarded-Uri"},
		{"a query alone", []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "?a=://b/login"}, 400, "X-Forwarded-Uri"},
		{"a long URI", []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", long}, 414, "8192 bytes"},
		{"no address", login()[:6], 400, "X-Forwarded-For"},
		{"no address in it", append(login()[:6:6], "X-Forwarded-For", "unknown"), 400, "X-Forwarded-For"},
		{"no address in the last line", login("X-Forwarded-For", "")[:10], 400, "X-Forwarded-For"},
		{"no original address", original("X-Forwarded-For", "203.0.113.9"), 400, "X-Real-IP"},
		{"two original addresses", original("X-Real-IP", "6.6.6.6, 203.0.113.9"), 400, "X-Real-IP"},
	} {
		r := ask(h, forwardauth.Path, c.fields...)
		requireDecision(t, c.what, r, c.status, "error")
		text := body(t, r)
		var p struct {
			Status int
			Detail string
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil || p.Status != c.status || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: the body %s does not contain %s, error %v", c.what, text, c.says, err)
		}
		if strings.Contains(text, "203.0.113.9") || strings.Contains(text, "shop.test") {
			t.Errorf("%s: the body contains what a client sent: %s", c.what, text)
		}
	}
	requireDecision(t, "8 KiB", ask(h, forwardauth.Path, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", long[:8<<10]), 200, "allow")
	requireDecision(t, "no address, and none is needed", ask(h, forwardauth.Path, host("a.test")...), 200, "allow")
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		peer string
		o    options
		want int
	}{
		{"127.0.0.1:1", options{}, 403},
		{"[::1]:1", options{}, 403},
		{"@", options{}, 403},
		{"10.0.0.1:1", options{}, 403},
		{"10.0.0.1:1", *proxied, 200},
		{"[::ffff:10.0.0.1]:1", *proxied, 200},
		{"127.0.0.1:1", *proxied, 403},
		{"203.0.113.9:1", *proxied, 403},
		{"nonsense", *proxied, 403},
		{"127.0.0.1:1", options{Options: forwardauth.Options{Local: true}}, 200},
		{"127.8.8.8:1", options{Options: forwardauth.Options{Local: true}}, 200},
		{"[::1]:1", options{Options: forwardauth.Options{Local: true}}, 200},
		{"@", options{Options: forwardauth.Options{Local: true}}, 200},
		{"10.0.0.1:1", options{Options: forwardauth.Options{Local: true}}, 403},
		{"10.0.0.1:1", options{forwardauth.Options{Local: true}, proxied.TrustedProxies}, 200},
		{"127.0.0.1:1", options{forwardauth.Options{Local: true}, proxied.TrustedProxies}, 403},
		{"@", options{forwardauth.Options{Local: true}, proxied.TrustedProxies}, 403},
	} {
		h, _ := newHandler(t, &c.o)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(c.peer, forwardauth.Path, login()...))
		if w.Code != c.want {
			t.Errorf("peer %s, %v, local %t: got %d want %d", c.peer, c.o.TrustedProxies, c.o.Local, w.Code, c.want)
		}
		// Caddy and Traefik forward the body to their clients.
		if addr, err := netip.ParseAddrPort(c.peer); err == nil && strings.Contains(w.Body.String(), addr.Addr().Unmap().String()) {
			t.Errorf("peer %s: the body contains its address: %s", c.peer, w.Body)
		}
	}
}

// Loopback addresses in X-Forwarded-For are clients: only the proxy itself is trusted.
func TestLoopbackForwardedFor(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, &options{Options: forwardauth.Options{Local: true}})
	for i, list := range []string{"6.6.6.1, 127.0.0.1", "6.6.6.2, 6.6.6.3, 127.0.0.1", "127.0.0.1"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("127.0.0.1:1", forwardauth.Path, append(login()[:6:6], "X-Forwarded-For", list)...))
		if got, want := w.Header().Get("RateLimit"), fmt.Sprintf(`"login";r=%d;t=86400`, 2-i); got != want {
			t.Errorf("%s: got %s want %s, all of one client", list, got, want)
		}
	}
}

func TestTrustedProxiesReload(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h, e, store := newEngineHandler(t, &options{Options: forwardauth.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}})
	requireDecision(t, "no proxy is trusted", ask(h, forwardauth.Path, login()...), 403, "error")
	requireDecision(t, "no proxy is trusted", ask(h, forwardauth.Path, login()...), 403, "error")
	if got := strings.Count(log.String(), "trusted_proxies"); got != 1 || strings.Contains(log.String(), "10.0.0") {
		t.Errorf("the log: %s", log.String())
	}
	if err := e.Apply(decidedBy(proxied.TrustedProxies)); err != nil {
		t.Fatal(err)
	}
	requireDecision(t, "trusted", ask(h, forwardauth.Path, login()...), 200, "allow")
	invalid := must(engine.New(store, decidedBy([]netip.Prefix{{}})))
	if _, err := forwardauth.New(invalid, nil); !errors.Is(err, clientaddr.ErrInvalidOptions) {
		t.Errorf("New with an invalid network: got %v", err)
	}
}

// Trusted proxies, policies and routes of a request are of one configuration.
func TestRequestUsesOneConfiguration(t *testing.T) {
	t.Parallel()
	of := func(own, others string, trusted ...netip.Prefix) *engine.Options {
		return &engine.Options{
			Policies: map[string]headgate.Policy{"p": headgate.MustPolicy(others)}, TrustedProxies: trusted,
			PolicyOptions: map[string]engine.PolicyOptions{"p": {Overrides: map[string][]headgate.Limit{"203.0.113.9": {headgate.MustParseLimit(own)}}}},
		}
	}
	// With the first configuration, the client of “203.0.113.9, 10.0.0.7” is 203.0.113.9,
	// and with the second 10.0.0.7. No client has the third limit.
	const first, second, never = "1111111/24h", "2222222/24h", "3333333/24h"
	here := netip.MustParsePrefix("127.0.0.0/8")
	trusting, local := of(first, never, here, proxied.TrustedProxies[0]), of(never, second)
	store := memstore.New(nil)
	defer store.Close()
	e := must(engine.New(store, trusting))
	h := must(forwardauth.New(e, &forwardauth.Options{Local: true}))
	done := make(chan struct{})
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := e.Apply([]*engine.Options{local, trusting}[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2_000 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("127.0.0.1:1", forwardauth.Path+"/p", append(login()[:6:6], "X-Forwarded-For", "203.0.113.9, 10.0.0.7")...))
		if got := w.Header().Get("RateLimit-Policy"); w.Code != 200 || !strings.Contains(got, "q=1111111;") && !strings.Contains(got, "q=2222222;") {
			t.Errorf("got %d and %s", w.Code, got)
			break
		}
	}
	close(done)
	reloads.Wait()
}

func TestStoreFailure(t *testing.T) {
	t.Parallel()
	h, store := newHandler(t, proxied)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	r := ask(h, forwardauth.Path+"?deny=403", login()...)
	requireDecision(t, "a store that is gone", r, 503, "error")
	if got := r.Header.Get("Retry-After"); got != "1" || !strings.Contains(body(t, r), "temporary-reduced-capacity") {
		t.Errorf("Retry-After: got %q want 1, and a body of that type", got)
	}
	free := []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/free"}
	requireDecision(t, "no route needs no store", ask(h, forwardauth.Path, free...), 200, "allow")
}

// Every method is accepted, and the body is not read.
func TestMethodsAndBodies(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE", "PROPFIND"} {
		r := request(proxy, forwardauth.Path, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/free")
		r.Method, r.Body = method, io.NopCloser(untouched{t})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		requireDecision(t, method, w.Result(), 200, "allow")
	}
}

type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// A queued request gets its response when its turn comes. If its proxy disconnects, the
// next request takes its place.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newHandler(t, proxied)
		fields := []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/paced", "X-Forwarded-For", "203.0.113.9"}
		begun := time.Now()
		timed := func(want time.Duration) {
			t.Helper()
			requireDecision(t, "paced", ask(h, forwardauth.Path, fields...), 200, "allow")
			if took := time.Since(begun).Round(time.Millisecond); took != want {
				t.Errorf("answered after %v, want %v", took, want)
			}
		}
		timed(0)
		timed(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(proxy, forwardauth.Path, fields...).WithContext(ctx))
		requireDecision(t, "a proxy that went", w.Result(), 503, "error")
		if got := w.Header().Get("RateLimit"); got != "" {
			t.Errorf("a proxy that went: got RateLimit %q want none", got)
		}
		timed(2 * time.Second)
	})
}

// A queued request may wait longer than the server's write timeout.
func TestQueueOutlastsWriteTimeout(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = proxy
		h.ServeHTTP(w, r)
	}))
	server.Config.WriteTimeout, server.Config.ReadTimeout = 100*time.Millisecond, 100*time.Millisecond
	server.Start()
	defer server.Close()
	for i := range 3 {
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+forwardauth.Path+"/quick", nil))
		r.Header = request("", "/", login()...).Header
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatalf("request %d, whose turn comes after at most 300 ms: %v", i+1, err)
		}
		requireDecision(t, "paced", resp, 200, "allow")
		resp.Body.Close()
	}
}

// A request as Traefik sends it. make test-long also tests Traefik itself, which Debian
// does not package.
func TestTraefik(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, proxied)
	fields := []string{
		"X-Forwarded-Method", "POST", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop.test",
		"X-Forwarded-Uri", "/login?next=%2F",
		"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Port", "443", "X-Forwarded-Server", "edge", "X-Real-Ip", "203.0.113.9",
		"User-Agent", "curl", "Cookie", "a=b",
	}
	for i := range 4 {
		r := ask(h, forwardauth.Path, fields...)
		if want := 200; i < 3 && r.StatusCode != want {
			t.Errorf("login %d: got %d want %d", i+1, r.StatusCode, want)
		} else if i == 3 && r.StatusCode != 429 {
			t.Errorf("login 4: got %d want 429", r.StatusCode)
		}
	}
}

// nowhere takes an answer and keeps only its status.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(status int)      { n.status = status }

func TestAllocations(t *testing.T) {
	h, _ := newHandler(t, proxied)
	r := request(proxy, forwardauth.Path, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/plain/1?x=y",
		"X-Forwarded-Host", "shop.test", "X-Forwarded-Proto", "https", "X-Forwarded-For", "203.0.113.9")
	w := &nowhere{header: http.Header{}}
	got := testing.AllocsPerRun(1000, func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	})
	if want := 6.0; got > want || w.status != 200 {
		t.Errorf("%v allocations (status %d), want at most %v", got, w.status, want)
	}
}

func BenchmarkForwardAuth(b *testing.B) {
	h, _ := newHandler(b, proxied)
	r := request(proxy, forwardauth.Path, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/plain/1?x=y",
		"X-Forwarded-Host", "shop.test", "X-Forwarded-Proto", "https", "X-Forwarded-For", "203.0.113.9")
	w := &nowhere{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}
