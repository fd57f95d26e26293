package forwardauth_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/memstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// policies are all policies of the tests. Their limits do not recover during a test.
var policies = map[string]headgate.Policy{
	"login":  {Limits: []headgate.Limit{headgate.MustParseLimit("3/24h")}, Algorithm: headgate.SlidingLog},
	"api":    {Limits: []headgate.Limit{headgate.MustParseLimit("2/24h")}, Algorithm: headgate.SlidingLog},
	"plain":  {Limits: []headgate.Limit{headgate.MustParseLimit("1000000/24h")}},
	"paced":  {Limits: []headgate.Limit{headgate.MustParseLimit("1/1s queue 5")}, Algorithm: headgate.LeakyBucket},
	"quick":  {Limits: []headgate.Limit{headgate.MustParseLimit("1/300ms queue 5")}, Algorithm: headgate.LeakyBucket},
	"held":   {Limits: []headgate.Limit{headgate.MustParseLimit("10/24h")}, Algorithm: headgate.SlidingLog},
	"slots":  {Limits: []headgate.Limit{headgate.MustParseLimit("1 concurrent")}},
	"shadow": {Limits: []headgate.Limit{headgate.MustParseLimit("1/24h")}},
}

// routes returns the routes of every test. The policy plain alone applies to
// *.example.com.
func routes() *routing.Table {
	post := routing.Methods{}
	if err := post.Add("POST"); err != nil {
		panic(err)
	}
	return routing.NewTable([]routing.Route{
		{Path: must(routing.ParsePath("/login")), Methods: post, Policies: []string{"login"}},
		{Path: must(routing.ParsePath("/api/**")), Policies: []string{"api", "plain"}},
		{Path: must(routing.ParsePath("/paced")), Policies: []string{"paced"}},
		{Path: must(routing.ParsePath("/watched")), Policies: []string{"shadow"}},
		{Path: must(routing.ParsePath("/held/**")), Policies: []string{"held", "plain"}, Hold: time.Hour},
		{Path: must(routing.ParsePath("/slots/**")), Policies: []string{"slots", "held"}, Hold: time.Hour},
		{Path: must(routing.ParsePath("/health")), Policies: nil},
		{Path: must(routing.ParsePath("/plain/**")), Policies: []string{"plain"}},
		{Host: must(routing.ParseHost("*.example.com")), Policies: []string{"plain"}},
	}, map[string]routing.Key{"api": must(routing.ParseKey("header:X-API-Key, ip"))})
}

// options are settings of a handler and its trusted proxies.
type options struct {
	forwardauth.Options
	TrustedProxies []netip.Prefix
}

// decidedBy returns the engine options of a test.
func decidedBy(trusted []netip.Prefix) *engine.Options {
	return &engine.Options{
		Policies: policies, Routes: routes(), PolicyOptions: map[string]engine.PolicyOptions{"shadow": {Shadow: engine.All}}, TrustedProxies: trusted,
	}
}

// newHandler returns a handler over an empty store.
func newHandler(t testing.TB, opts *options) (*forwardauth.Handler, *memstore.Store) {
	t.Helper()
	h, _, store := newEngineHandler(t, opts)
	return h, store
}

func newEngineHandler(t testing.TB, opts *options) (*forwardauth.Handler, *engine.Engine, *memstore.Store) {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(store, decidedBy(opts.TrustedProxies))
	if err != nil {
		t.Fatal(err)
	}
	h, err := forwardauth.New(e, &opts.Options)
	if err != nil {
		t.Fatal(err)
	}
	return h, e, store
}

// proxied trusts the proxy of ask.
var proxied = &options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}

const proxy = "10.0.0.1:4711"

// request returns a request of a proxy.
func request(peer, target string, fields ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = peer
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// ask sends a request of the proxy.
func ask(h http.Handler, target string, fields ...string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(proxy, target, fields...))
	return w.Result()
}

// login returns the fields that describe a login of one client.
func login(more ...string) []string {
	return append([]string{
		"X-Forwarded-Method", "POST", "X-Forwarded-Host", "shop.test", "X-Forwarded-Uri", "/login", "X-Forwarded-For", "203.0.113.9",
	}, more...)
}
