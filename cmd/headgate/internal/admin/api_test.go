package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/admin"
	"github.com/headgate/headgate/cmd/headgate/internal/audit"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/metrics"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
	"github.com/headgate/headgate/memstore"
)

// contended is a store in which another program saves each document again before it is
// saved, as long as busy is set.
type contended struct {
	*memstore.Store
	busy bool
}

func (s *contended) SaveDocument(ctx context.Context, name string, expected headgate.DocumentVersion, content []byte) (headgate.DocumentVersion, error) {
	if s.busy {
		saved, err := s.LoadDocument(ctx, name, 0)
		if err != nil {
			return 0, err
		}
		if _, err := s.Store.SaveDocument(ctx, name, saved.Version, saved.Content); err != nil {
			return 0, err
		}
	}
	return s.Store.SaveDocument(ctx, name, expected, content)
}

// api is a running admin API with all of its parts, and its OpenAPI document.
type api struct {
	t      *testing.T
	url    string
	gate   *access.Gate
	store  *contended
	engine *engine.Engine // whose requests are observed
	log    strings.Builder
	doc    *openapi3.T
	seen   map[string]bool
}

var policies = map[string]headgate.Policy{
	"api":   {Limits: []headgate.Limit{headgate.MustParseLimit("10/1h")}},
	"slots": {Limits: []headgate.Limit{headgate.MustParseLimit("5 concurrent")}, Algorithm: headgate.Concurrency},
	"two":   {Limits: []headgate.Limit{headgate.MustParseLimit("10/1h"), headgate.MustParseLimit("100/24h")}, Algorithm: headgate.FixedWindow},
}

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{t: t, gate: access.NewGate(admin.Local), store: &contended{Store: memstore.New(nil)}, seen: make(map[string]bool)}
	t.Cleanup(func() { _ = a.store.Close() })
	e := must(engine.New(a.store, &engine.Options{Policies: policies, PolicyOptions: map[string]engine.PolicyOptions{"two": {Shadow: engine.All}}}))
	log := slog.New(slog.NewTextHandler(&a.log, nil))
	denials := metrics.NewDenials(nil)
	counted := metrics.New(&metrics.Options{Denials: denials})
	a.engine = counted.WithObserver(e, "test")
	h := admin.New(&admin.Options{Gate: a.gate, API: &admin.API{
		Engine: e, Overrides: overrides.New(&overrides.Options{Store: a.store, Engine: e, Log: log}), Audit: audit.New(a.store, "here", log),
		Status: func(context.Context) *admin.Status {
			return &admin.Status{Enforcement: "on", Store: admin.StoreState{Nodes: []admin.Node{}}, Outages: []admin.Outage{}}
		},
		Policies: func() *admin.Policies { return &admin.Policies{Policies: []admin.Policy{}} },
		Config:   func() (*admin.Config, error) { return &admin.Config{Settings: []admin.Setting{}}, nil },
		History:  func() *admin.History { return &admin.History{Configurations: []admin.Applied{}} },
		Hash:     denials.Hash, Admitted: counted.Admitted, Denied: denials.Denied, Denials: denials.Recent,
		Timeline: counted.NewTimeline(time.Now()),
	}})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	a.url = server.URL
	a.doc = must(openapi3.NewLoader().LoadFromData([]byte(a.mustGet("/admin/v1/openapi.json"))))
	return a
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// send sends a request. fields are names and values of header fields.
func (a *api) send(method, target, body string, fields ...string) (*http.Response, string) {
	a.t.Helper()
	r := must(http.NewRequestWithContext(a.t.Context(), method, a.url+target, strings.NewReader(body)))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	resp := must(http.DefaultClient.Do(r))
	defer resp.Body.Close()
	return resp, string(must(io.ReadAll(resp.Body)))
}

func (a *api) mustGet(target string) string {
	a.t.Helper()
	resp, body := a.send("GET", target, "")
	if resp.StatusCode != 200 {
		a.t.Fatalf("GET %s: got %d %s", target, resp.StatusCode, body)
	}
	return body
}

// expect sends a request, and validates the status and the response against the document.
// It returns the body.
func (a *api) expect(want int, method, target, body string, fields ...string) string {
	a.t.Helper()
	resp, text := a.send(method, target, body, fields...)
	if resp.StatusCode != want {
		a.t.Errorf("%s %s %.80s: got %d %s want %d", method, target, body, resp.StatusCode, text, want)
	}
	path, _, _ := strings.Cut(target, "?")
	item := a.doc.Paths.Value(path)
	documented, operation := "POST", item.Post
	if operation == nil {
		documented, operation = "GET", item.Get
	}
	in := &openapi3filter.RequestValidationInput{
		Request: must(http.NewRequestWithContext(a.t.Context(), method, a.url+target, strings.NewReader(body))),
		Route:   &routers.Route{Spec: a.doc, Path: path, PathItem: item, Method: documented, Operation: operation},
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Options: in.Options}
	if err := openapi3filter.ValidateResponse(a.t.Context(), out.SetBodyBytes([]byte(text))); err != nil {
		a.t.Errorf("%s %s %.80s: the response %d %s does not match the document: %v", method, target, body, resp.StatusCode, text, err)
	}
	a.seen[fmt.Sprintf("%s %s %d", documented, path, resp.StatusCode)] = true
	return text
}

func (a *api) post(want int, path, body string) string {
	a.t.Helper()
	return a.expect(want, "POST", admin.APIPrefix+path, body)
}

func (a *api) get(want int, target string) string {
	a.t.Helper()
	return a.expect(want, "GET", admin.APIPrefix+target, "")
}

// check takes units of a policy, as a client of another API.
func (a *api) check(policy, key string, cost int64) {
	a.t.Helper()
	var answer engine.Answer
	if err := a.engine.Decide(a.t.Context(), headgate.Take, []engine.Check{{Policy: policy, Key: key, Cost: cost}}, &answer); err != nil {
		a.t.Fatal(err)
	}
}

// hold opens a hold and returns it.
func (a *api) hold(policy, key string, cost int64, ttl time.Duration) *engine.ClientHold {
	a.t.Helper()
	h := &engine.ClientHold{ID: headgate.NewHoldID(), Checks: []engine.Check{{Policy: policy, Key: key, Cost: cost}}}
	if err := a.engine.ActiveConfig().Hold(a.t.Context(), headgate.StoreClock, ttl, h, new(engine.Answer)); err != nil {
		a.t.Fatal(err)
	}
	return h
}

func decodeAs[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestOpenAPIValid(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	if err := a.doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := len(a.doc.Paths.Map()), len(admin.Operations()); got != want {
		t.Errorf("the document has %d paths want %d", got, want)
	}
	for _, o := range admin.Operations() {
		item := a.doc.Paths.Value(o.Path)
		if item == nil || item.GetOperation(o.Method) == nil {
			t.Errorf("the document does not have %s %s", o.Method, o.Path)
			continue
		}
		var got []string
		for _, requirement := range *item.GetOperation(o.Method).Security {
			got = append(got, requirement["bearer"]...)
		}
		if strings.Join(got, " ") != string(o.Scope) {
			t.Errorf("%s %s: the document has the scopes %q, the handler %q", o.Method, o.Path, got, o.Scope)
		}
	}
}

// TestOpenAPIResponses: the API returns every response of the document, and no other.
func TestOpenAPIResponses(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.check("api", "bob", 11)
	a.check("api", "ann", 10)
	for _, o := range admin.Operations() {
		a.askAnyOperation(o)
	}
	a.askKeys()
	a.askHolds()
	a.askOverrides()
	if err := a.store.Close(); err != nil {
		t.Fatal(err)
	}
	key := `{"policy":"api","key":"bob"}`
	for _, path := range []string{"keys/inspect", "keys/reset", "keys/refund", "keys/debit"} {
		a.post(503, path, key)
	}
	a.post(503, "holds/cancel", `{"policy":"api","key":"bob","id_hash":"000000000000000000000000"}`)
	a.post(503, "overrides/set", `{"overrides":[{"policy":"api","target":"key:bob","limits":["5/1h"]}]}`)
	a.post(503, "overrides/remove", `{"overrides":[{"policy":"api","target":"key:bob"}]}`)
	a.get(503, "audit")
	for path, item := range a.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				if documented := method + " " + path + " " + status; !a.seen[documented] {
					t.Errorf("no request got %s of the document", documented)
				}
			}
		}
	}
}

// askAnyOperation sends the requests that are possible for every operation.
func (a *api) askAnyOperation(o admin.Operation) {
	wrong := map[string]string{"GET": "POST", "POST": "GET"}[o.Method]
	a.expect(405, wrong, o.Path, "{}")
	if o.Method == "GET" {
		a.expect(200, "GET", o.Path, "")
		for _, parameter := range a.doc.Paths.Value(o.Path).Get.Parameters {
			a.expect(400, "GET", o.Path+"?polcy=x", "")
			if name := parameter.Value.Name; name != "policy" && name != "target" && name != "before" {
				a.expect(400, "GET", o.Path+"?"+name+"=0", "")
			}
			a.expect(400, "GET", o.Path+"?"+parameter.Value.Name+"=1&"+parameter.Value.Name+"=1", "")
		}
	} else {
		a.expect(400, "POST", o.Path, "{}")
		a.expect(413, "POST", o.Path, strings.Repeat(" ", 1<<20+1))
		a.expect(415, "POST", o.Path, "{}", "Content-Type", "text/plain")
	}
	if o.Scope == access.None {
		return
	}
	a.expect(403, o.Method, o.Path, "{}", "Host", "evil.example")
	a.expect(403, o.Method, o.Path, "{}", "Origin", "https://evil.example")
	a.gate.Use([]access.Token{{Name: "t", Secret: "secret"}})
	a.expect(401, o.Method, o.Path, "{}")
	a.expect(403, o.Method, o.Path, "{}", "Authorization", "Bearer secret")
	a.gate.Use(nil)
}

func (a *api) askKeys() {
	a.post(404, "keys/inspect", `{"policy":"none","key":"bob"}`)
	a.post(200, "keys/inspect", `{"key":"bob"}`)
	a.post(200, "keys/inspect", `{"limit":"5/1m","key":"bob","holds":0}`)
	for _, path := range []string{"keys/reset", "keys/refund", "keys/debit"} {
		a.post(200, path, `{"policy":"api","key":"bob","reason":"a test"}`)
		a.post(404, path, `{"policy":"none","key":"bob"}`)
	}
}

func (a *api) askHolds() {
	h := a.hold("api", "held", 3, time.Hour)
	a.post(200, "holds/cancel", `{"hold":"`+h.Token()+`"}`)
	a.post(404, "holds/cancel", `{"policy":"api","key":"held","id_hash":"000000000000000000000000"}`)
	expired := &engine.ClientHold{Expires: 1, Checks: []engine.Check{{Policy: "api", Key: "held", Cost: 1}}}
	a.post(410, "holds/cancel", `{"hold":"`+expired.Token()+`"}`)
}

func (a *api) askOverrides() {
	set, remove := `{"overrides":[{"policy":"api","target":"key:bob","limits":["5/1h"]}]}`, `{"overrides":[{"policy":"api","target":"key:bob"}]}`
	a.post(200, "overrides/set", set)
	a.get(200, "overrides")
	a.post(200, "overrides/remove", remove)
	a.post(200, "overrides/set", set)
	a.store.busy = true
	a.post(409, "overrides/set", set)
	a.store.busy = false
	a.post(200, "overrides/set", set)
	a.store.busy = true
	a.post(409, "overrides/remove", remove)
	a.store.busy = false
}
