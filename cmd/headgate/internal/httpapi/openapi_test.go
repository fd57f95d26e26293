package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

// described is a server with all APIs, as users run it, and its OpenAPI document.
type described struct {
	t     *testing.T
	url   string
	drain func()
	store *memstore.Store
	doc   *openapi3.T
	gate  *access.Gate
	seen  map[string]bool // method, path and status of every answer
}

func newDescribed(t *testing.T) *described {
	t.Helper()
	d := &described{t: t, store: memstore.New(nil), gate: access.NewGate(access.Client{}), seen: make(map[string]bool)}
	t.Cleanup(func() { _ = d.store.Close() })
	e := must(engine.New(d.store, &engine.Options{Policies: policies}))
	hosts := localaccess.NewHosts(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, false, nil)
	guard := httpapi.NewGuard(hosts, nil)
	proxies := must(forwardauth.New(e, &forwardauth.Options{Local: true, AllowHost: hosts.AllowForwarded}))
	envoy := must(rlsapi.New(e, &rlsapi.Options{Unavailable503: true}))
	rules := must(envoyconfig.Parse([]envoyconfig.File{{Name: "d.yaml", Content: []byte("domain: d\ndescriptors: [{key: k}]\n")}}, nil))
	if err := envoy.Apply(rules); err != nil {
		t.Fatal(err)
	}
	h := httpapi.New(e, &httpapi.Options{
		MaxBodyBytes: 4 << 10,
		Guard:        guard,
		Access:       d.gate,
		Health: httpapi.NewHealth(e, &httpapi.HealthOptions{
			Store: "memory", Config: func() (uint64, bool) { return 1, false }, ControlPlane: func() (bool, bool) { return true, true },
		}),
		Mounted: map[string]http.Handler{
			forwardauth.Path:       proxies,
			forwardauth.Path + "/": proxies,
			"/json":                guard.Protect(http.HandlerFunc(envoy.ServeJSON)),
			"/healthcheck":         http.HandlerFunc(envoy.ServeHealth),
		},
	})
	d.drain = func() { h.Drain(); envoy.Drain() }
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	d.url = server.URL
	resp := must(http.Get(d.url + "/openapi.json"))
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "application/json" {
		t.Fatalf("the document: got %d, %s want 200, application/json", resp.StatusCode, got)
	}
	d.doc = must(openapi3.NewLoader().LoadFromData(must(io.ReadAll(resp.Body))))
	return d
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// ask sends a request and validates the response against the document. invalid is the
// document's reason to reject the request.
func (d *described) ask(method, path, target, body string, fields ...string) (status int, invalid error) {
	d.t.Helper()
	r := must(http.NewRequestWithContext(d.t.Context(), method, d.url+target, strings.NewReader(body)))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	r.Host = r.Header.Get("Host") // if it is empty, that of the URL
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	text := must(io.ReadAll(resp.Body))
	item := d.doc.Paths.Value(path)
	documented, operation := http.MethodPost, item.Post // the document has one method for each path
	if operation == nil {
		documented, operation = http.MethodGet, item.Get
	}
	r.Body = io.NopCloser(strings.NewReader(body))
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: map[string]string{"policy": "login"},
		Route: &routers.Route{Spec: d.doc, Path: path, PathItem: item, Method: documented, Operation: operation},
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Options: in.Options,
	}
	if err := openapi3filter.ValidateResponse(d.t.Context(), out.SetBodyBytes(text)); err != nil {
		d.t.Errorf("%s %s %s: the response %d %v %s does not match the document: %v",
			method, target, body, resp.StatusCode, resp.Header, text, err)
	}
	d.seen[fmt.Sprintf("%s %s %d", documented, path, resp.StatusCode)] = true
	return resp.StatusCode, openapi3filter.ValidateRequest(d.t.Context(), in)
}

func TestOpenAPIValid(t *testing.T) {
	t.Parallel()
	d := newDescribed(t)
	if err := d.doc.Validate(context.Background()); err != nil {
		t.Error(err)
	}
	if got := d.doc.OpenAPI; got != "3.1.0" {
		t.Errorf("the version: got %s want 3.1.0", got)
	}
	wantNames := []any{""}
	for _, name := range algo.Names() {
		wantNames = append(wantNames, name)
	}
	if got := d.doc.Components.Schemas["LimitCheck"].Value.Properties["algorithm"].Value.Enum; !slices.Equal(got, wantNames) {
		t.Errorf("the algorithms: got %q want %q", got, wantNames)
	}
	got := slices.Sorted(maps.Keys(d.doc.Paths.Map()))
	want := []string{
		"/", "/healthcheck", "/json", "/livez", "/openapi.json", "/readyz", "/v1/cancel", "/v1/check", "/v1/commit", "/v1/debit", "/v1/extend",
		"/v1/forward-auth", "/v1/forward-auth/{policy}", "/v1/hold", "/v1/peek", "/v1/refund", "/v1/reset", "/v1/take-up-to",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the paths: got %q want %q", got, want)
	}
}

// The document and the server accept the same requests.
func TestOpenAPIRequests(t *testing.T) {
	t.Parallel()
	d := newDescribed(t)
	var checks []string
	for range 33 {
		checks = append(checks, `{"limit":"5/1m","key":"k","cost":0}`)
	}
	for _, c := range []struct {
		body string
		ok   bool
	}{
		{`{"limit":"5/1m","key":"k"}`, true},
		{`{"limit":"5/1m","key":""}`, true},
		{`{"limit":"5/1m","key":"k","cost":0,"algorithm":"gcra"}`, true},
		{`{"limit":"5/1m","key":"k","algorithm":""}`, true},
		{`{"policy":"login","key":"k","cost":1}`, true},
		{`{"checks":[{"policy":"login","key":"k"},{"limit":"5/1m","key":"k"}]}`, true},
		{`{"checks":[` + strings.Join(checks[:32], ",") + `]}`, true},
		{`{"checks":[` + strings.Join(checks, ",") + `]}`, false},
		{`{"checks":[]}`, false},
		{`{"checks":[{"limit":"5/1m","key":"k"}],"cost":1}`, false},
		{`{"checks":[{"checks":[]}]}`, false},
		{`{"limit":"5/1m"}`, false},
		{`{"key":"k"}`, false},
		{`{"policy":"","key":"k"}`, false},
		{`{"policy":"login","limit":"5/1m","key":"k"}`, false},
		{`{"policy":"login","algorithm":"gcra","key":"k"}`, false},
		{`{"limit":"5/1m","key":"k","algorithm":"magic"}`, false},
		{`{"limit":"5/1m","key":"k","cost":-1}`, false},
		{`{"limit":"5/1m","key":"k","cost":1.5}`, false},
		{`{"limit":"5/1m","key":"k","cost":"1"}`, false},
		{`{"limit":"5/1m","key":"k","cost":null}`, false},
		{`{"limit":5,"key":"k"}`, false},
		{`{"limit":"5/1m","key":7}`, true},
		{`{"limit":"5/1m","key":7.5}`, false},
		{`{"limit":"5/1m","key":true}`, false},
		{`{"limit":"5/1m","key":"k","more":1}`, false},
		{`{"limit":"5/1m","key":"` + strings.Repeat("k", 1025) + `"}`, false},
		{`[]`, false},
		{`null`, false},
		{``, false},
	} {
		status, err := d.ask("POST", "/v1/check", "/v1/check", c.body)
		if (status != 400) != c.ok || (err == nil) != c.ok {
			t.Errorf("%.80s: got %d, the document requires %v", c.body, status, err)
		}
	}
}

// The server returns every response of the document, and no other.
func TestOpenAPIResponses(t *testing.T) {
	t.Parallel()
	d := newDescribed(t)
	d.askForChecks()
	bodies := d.askForHolds()
	d.askAsAProxy()
	d.askTheRest()
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, verb := range verbs {
		d.expect("POST", verb, verb, `{"policy":"two","key":"k"}`, 503)
	}
	for path, body := range bodies {
		d.expect("POST", path, path, body, 503)
	}
	d.expect("GET", byPolicy, byRoute+"/login", "", 503, aRequest...)
	d.expect("POST", "/json", "/json", descriptor, 503)
	d.expect("GET", "/readyz", "/readyz", "", 200)
	d.drain()
	d.expect("GET", "/readyz", "/readyz", "", 503)
	d.expect("GET", "/healthcheck", "/healthcheck", "", 500)
	d.expectAll()
}

var (
	verbs    = []string{"/v1/check", "/v1/peek", "/v1/refund", "/v1/reset", "/v1/debit", "/v1/take-up-to"}
	aRequest = []string{
		"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/", "X-Forwarded-Host", "shop.test", "X-Forwarded-For", "203.0.113.9",
	}
)

const (
	byRoute    = forwardauth.Path
	byPolicy   = forwardauth.Path + "/{policy}"
	descriptor = `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"requestsPerUnit":1,"unit":"DAY"}}]}`
)

func (d *described) expect(method, path, target, body string, want int, fields ...string) {
	d.t.Helper()
	if got, _ := d.ask(method, path, target, body, fields...); got != want {
		d.t.Errorf("%s %s %.60s: got %d want %d", method, target, body, got, want)
	}
}

func (d *described) askForChecks() {
	for _, verb := range verbs {
		denied := 200
		if verb == "/v1/check" || verb == "/v1/peek" {
			denied = 429
		}
		d.expect("POST", verb, verb, `{"policy":"two","key":"k"}`, 200)
		d.expect("POST", verb, verb, `{"checks":[{"policy":"two","key":"k"},{"limit":"2/1m","key":"k"}]}`, 200)
		d.expect("POST", verb, verb, `{"policy":"two","key":"k","cost":6}`, denied)
		d.expect("POST", verb, verb, `{"policy":"two"}`, 400)
		d.expect("POST", verb, verb, `{"checks":[{"policy":"two","key":"k"},{"policy":"none","key":"k"}]}`, 404)
		d.expect("PUT", verb, verb, `{}`, 405)
		d.expect("POST", verb, verb+"?deny_status=429", `{"policy":"two","key":"k","cost":6}`, denied)
		d.expect("POST", verb, verb+"?deny_status=404", `{"policy":"two","key":"k","cost":6}`, 400)
		for _, status := range []int{200, 403, 503} {
			want := status
			if denied == 200 {
				want = denied
			}
			d.expect("POST", verb, fmt.Sprintf("%s?deny_status=%d", verb, status), `{"policy":"two","key":"k","cost":6}`, want)
		}
		d.expectGuarded(verb)
		d.expect("POST", verb, verb, strings.Repeat(" ", 4<<10+1), 413)
	}
}

// askForHolds sends requests about holds, and returns a valid body for each path.
func (d *described) askForHolds() map[string]string {
	const login = `"policy":"login","key":"held"`
	checks := []engine.Check{{Policy: "login", Key: "held"}}
	far := headgate.InstantOf(time.Now().Add(time.Hour))
	bodies := map[string]string{"/v1/hold": `{"ttl":"1h",` + login + `}`}
	for error, token := range map[int]string{
		0: d.open(`{"id":"a","ttl":"1h",` + login + `}`), 404: forged(headgate.HoldID{}, far, checks...), 410: forged(headgate.HoldID{}, 1, checks...),
	} {
		for path, body := range map[string]string{
			"/v1/extend": `{"ttl":"1h","holds":["TOKEN"]}`, "/v1/commit": `{"actual":[2],"hold":"TOKEN"}`, "/v1/cancel": `{"hold":"TOKEN"}`,
		} {
			body = strings.Replace(body, "TOKEN", token, 1)
			if error != 0 {
				d.expect("POST", path, path, body, error)
			} else {
				bodies[path] = body
			}
		}
	}
	for _, path := range []string{"/v1/extend", "/v1/commit", "/v1/cancel"} {
		d.expect("POST", path, path, bodies[path], 200)
	}
	d.expect("POST", "/v1/hold", "/v1/hold", `{"id":"a","ttl":"1h","cost":2,`+login+`}`, 409)
	for query, status := range map[string]int{"": 429, "?deny_status=200": 200, "?deny_status=403": 403, "?deny_status=503": 503} {
		d.expect("POST", "/v1/hold", "/v1/hold"+query, `{"ttl":"1h","cost":6,`+login+`}`, status)
	}
	d.expect("POST", "/v1/hold", "/v1/hold", `{"ttl":"1h","policy":"none","key":""}`, 404)
	for path := range bodies {
		d.expect("POST", path, path, `{}`, 400)
		d.expect("PUT", path, path, `{}`, 405)
		d.expectGuarded(path)
		d.expect("POST", path, path, strings.Repeat(" ", 4<<10+1), 413)
	}
	return bodies
}

// open opens a hold and returns its token.
func (d *described) open(body string) string {
	d.t.Helper()
	resp := must(http.Post(d.url+"/v1/hold", "application/json", strings.NewReader(body)))
	defer resp.Body.Close()
	var answer struct{ Hold string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Hold == "" {
		d.t.Fatalf("%s: %d, %v", body, resp.StatusCode, err)
	}
	return answer.Hold
}

// The document and the server accept the same requests about holds.
func TestOpenAPIHoldRequests(t *testing.T) {
	t.Parallel()
	d := newDescribed(t)
	for _, c := range []struct {
		path, body string
		ok         bool
	}{
		{"/v1/hold", `{"limit":"5/1m","key":"k","ttl":"1s"}`, true},
		{"/v1/hold", `{"id":"i","limit":"5/1m","algorithm":"gcra","key":7,"cost":2,"ttl":"1h30m"}`, true},
		{"/v1/hold", `{"id":"","policy":"login","key":"k","ttl":"1s"}`, true},
		{"/v1/hold", `{"ttl":"1s","checks":[{"policy":"login","key":"k"},{"limit":"5/1m","key":"k"}]}`, true},
		{"/v1/hold", `{"limit":"5/1m","key":"k"}`, false},
		{"/v1/hold", `{"limit":"5/1m","key":"k","ttl":1}`, false},
		{"/v1/hold", `{"limit":"5/1m","key":"k","ttl":"1s","id":1}`, false},
		{"/v1/hold", `{"limit":"5/1m","key":"k","ttl":"1s","actual":[1]}`, false},
		{"/v1/hold", `{"ttl":"1s","checks":[]}`, false},
		{"/v1/hold", `{"ttl":"1s","checks":[{"policy":"login","key":"k","ttl":"1s"}]}`, false},
		{"/v1/hold", `{"limit":"5/1m","key":"k","ttl":"1s","id":"` + strings.Repeat("i", 129) + `"}`, false},
		{"/v1/commit", `{"hold":"x"}`, false},
		{"/v1/commit", `{"actual":[1]}`, false},
		{"/v1/commit", `{"hold":"x","actual":[]}`, false},
		{"/v1/commit", `{"hold":"x","actual":["1"]}`, false},
		{"/v1/commit", `{"hold":"x","actual":[-1]}`, false},
		{"/v1/extend", `{"holds":["x"]}`, false},
		{"/v1/extend", `{"holds":[],"ttl":"1s"}`, false},
		{"/v1/extend", `{"hold":"x","ttl":"1s"}`, false},
		{"/v1/cancel", `{"hold":"x","actual":[1]}`, false},
		{"/v1/cancel", `{"hold":1}`, false},
		{"/v1/debit", `{"limit":"5/1m","key":"k","ttl":"1s"}`, false},
		{"/v1/take-up-to", `{"limit":"5/1m","key":"k","id":"1"}`, false},
	} {
		status, err := d.ask("POST", c.path, c.path, c.body)
		if (status != 400) != c.ok || (err == nil) != c.ok {
			t.Errorf("%s %.80s: got %d, the document requires %v", c.path, c.body, status, err)
		}
	}
}

// expectGuarded sends requests as web pages have browsers send them.
func (d *described) expectGuarded(path string) {
	d.t.Helper()
	d.expect("POST", path, path, "{}", 403, "Origin", "https://evil.example")
	d.expect("POST", path, path, "{}", 421, "Host", "evil.example")
	d.gate.Use([]access.Token{{Name: "t", Secret: "secret", Scopes: []access.Scope{access.Admin}}})
	d.expect("POST", path, path, "{}", 401)
	d.gate.Use(nil)
}

func (d *described) askAsAProxy() {
	d.expect("GET", byRoute, byRoute, "", 200, aRequest...)
	for range 5 {
		d.expect("GET", byPolicy, byRoute+"/login", "", 200, aRequest...)
	}
	for query, status := range map[string]int{"": 429, "?deny=429": 429, "?deny=403": 403, "?deny=503": 503, "?deny=1": 400} {
		d.expect("GET", byPolicy, byRoute+"/login"+query, "", status, aRequest...)
	}
	long := append(slices.Clone(aRequest), "X-Forwarded-Uri", "/"+strings.Repeat("a", 8<<10))
	for _, path := range []string{byRoute, byPolicy} {
		target := strings.Replace(path, "{policy}", "login", 1)
		d.expect("GET", path, target, "", 400)
		d.expect("GET", path, target, "", 414, long...)
		d.expect("GET", path, target, "", 421, append(slices.Clone(aRequest), "Host", "evil.example")...)
	}
	d.expect("GET", byPolicy, byRoute+"/none", "", 404, aRequest...)
}

func (d *described) askTheRest() {
	for _, path := range []string{"/", "/livez", "/readyz", "/openapi.json"} {
		d.expect("GET", path, path, "", 200)
		d.expect("PUT", path, path, "", 405)
	}
	d.expect("GET", "/healthcheck", "/healthcheck", "", 200)
	d.expect("POST", "/json", "/json", descriptor, 200)
	d.expect("POST", "/json", "/json", descriptor, 429)
	d.expect("POST", "/json", "/json", "{}", 400)
	d.expectGuarded("/json")
	d.expect("POST", "/json", "/json", strings.Repeat(" ", 64<<10+1), 400)
}

// expectAll reports responses of the document that no request got.
func (d *described) expectAll() {
	d.t.Helper()
	elsewhere := []string{ // covered by the tests of Server and of forwardauth
		"POST /v1/check 408", "POST /v1/peek 408", "POST /v1/refund 408", "POST /v1/reset 408", "POST /v1/debit 408", "POST /v1/take-up-to 408",
		"POST /v1/hold 408", "POST /v1/commit 408", "POST /v1/extend 408", "POST /v1/cancel 408",
		"GET /v1/forward-auth 403", "GET /v1/forward-auth 429", "GET /v1/forward-auth 503",
	}
	for path, item := range d.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				if documented := method + " " + path + " " + status; !d.seen[documented] && !slices.Contains(elsewhere, documented) {
					d.t.Errorf("no request got %s of the document", documented)
				}
			}
		}
	}
}
