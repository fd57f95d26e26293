package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

func TestMain(m *testing.M) {
	serveForBenchmark()
	leaktest.Main(m)
}

// served is a server as people meet it: over TCP.
type served struct {
	t      *testing.T
	url    string
	addr   string
	store  headgate.Store
	server *httpapi.Server
	client *http.Client
	log    *testserver.Log
}

var policies = map[string]headgate.Policy{
	"login": {Limits: []headgate.Limit{headgate.MustParseLimit("5/15m")}, Algorithm: headgate.SlidingLog},
	"open":  {Limits: []headgate.Limit{headgate.MustParseLimit("5/15m")}, OnStoreError: headgate.FailOpen},
	"two":   {Limits: []headgate.Limit{headgate.MustParseLimit("5/15m"), headgate.MustParseLimit("3/24h")}, Algorithm: headgate.SlidingLog},
}

func serve(t *testing.T, opts *httpapi.Options, serverOpts *httpapi.ServerOptions) *served {
	t.Helper()
	return serveHealth(t, nil, opts, serverOpts)
}

// serveHealth is serve with health paths of these options.
func serveHealth(t *testing.T, health *httpapi.HealthOptions, opts *httpapi.Options, serverOpts *httpapi.ServerOptions) *served {
	t.Helper()
	s := &served{t: t, store: memstore.New(nil), client: &http.Client{Transport: &http.Transport{}}, log: new(testserver.Log)}
	e, err := engine.New(s.store, &engine.Options{Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	if health != nil {
		opts = &httpapi.Options{Health: httpapi.NewHealth(e, health)}
	}
	if serverOpts == nil {
		serverOpts = &httpapi.ServerOptions{}
	}
	serverOpts.Log = slog.New(slog.NewTextHandler(s.log, nil))
	s.server = httpapi.NewServer(httpapi.New(e, opts), serverOpts)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr, s.url = ln.Addr().String(), "http://"+ln.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(ln) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		now, stop := context.WithCancel(context.Background())
		stop() // no test waits for requests that it did not send
		if err := s.server.Shutdown(now); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		_ = s.store.Close()
	})
	return s
}

// reply is what a client gets.
type reply struct {
	status int
	header http.Header
	body   string
}

func (s *served) do(method, path, body string) reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d does
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func (s *served) post(path, body string) reply {
	s.t.Helper()
	return s.do("POST", path, body)
}

const answer = `{"allowed":%v,"limit":%d,"remaining":%d,"retry_after_ms":%d,"reset_after_ms":%d,"delay_ms":%d,"never":%v,"policy":%q,"denied_by":[%s],"degraded":false,"results":[`

// The bodies up to the results; see TestResults. The periods are too long to pass during
// a test.
func TestResponses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, setup, path, body string
		status                  int
		want                    string
	}{
		{"allowed", "", "/v1/check", `{"policy":"login","key":"k"}`, 200, fmt.Sprintf(answer, true, 5, 4, 0, 900000, 0, false, "login", "")},
		{"a cost", "", "/v1/check", `{"policy":"login","key":"k","cost":5}`, 200, fmt.Sprintf(answer, true, 5, 0, 0, 900000, 0, false, "login", "")},
		{"cost 0 only asks", "", "/v1/check", `{"policy":"login","key":"k","cost":0}`, 200, fmt.Sprintf(answer, true, 5, 5, 0, 0, 0, false, "login", "")},
		{"never", "", "/v1/check", `{"policy":"login","key":"k","cost":6}`, 429, fmt.Sprintf(answer, false, 5, 5, 0, 0, 0, true, "login", `"login"`)},
		{"a policy of two limits", "", "/v1/check", `{"policy":"two","key":"k","cost":4}`, 429, fmt.Sprintf(answer, false, 3, 3, 0, 0, 0, true, "two", `"two:3/d"`)},
		{"no policy", "", "/v1/check", `{"limit":"5/365d","key":"k","algorithm":"sliding_log"}`, 200, fmt.Sprintf(answer, true, 5, 4, 0, 31536000000, 0, false, "", "")},
		{"no policy, never", "", "/v1/check", `{"limit":"5/1m","key":"k","cost":6}`, 429, fmt.Sprintf(answer, false, 5, 5, 0, 0, 0, true, "", `"5/1m"`)},
		{
			"the largest limit", `{"limit":"9007199254740991/365d","algorithm":"fixed_window","key":"k","cost":4503599627370495}`, "/v1/peek",
			`{"limit":"9007199254740991/365d","algorithm":"fixed_window","key":"k","cost":9007199254740992}`, 429,
			`{"allowed":false,"limit":9007199254740991,"remaining":4503599627370496,`,
		},
		{"the empty key", "", "/v1/check", `{"policy":"login","key":""}`, 200, fmt.Sprintf(answer, true, 5, 4, 0, 900000, 0, false, "login", "")},
		{"several", "", "/v1/check", `{"checks":[{"policy":"login","key":"k","cost":1},{"policy":"two","key":"k","cost":1}]}`, 200, fmt.Sprintf(answer, true, 3, 2, 0, 86400000, 0, false, "two", "")},
		{"several, one never", "", "/v1/check", `{"checks":[{"limit":"1/1m","key":"k","cost":2},{"policy":"two","key":"k","cost":4}]}`, 429, fmt.Sprintf(answer, false, 1, 1, 0, 0, 0, true, "", `"1/1m","two:3/d"`)},
		{"a peek spends nothing", `{"policy":"login","key":"k","cost":2}`, "/v1/peek", `{"policy":"login","key":"k","cost":9}`, 429, fmt.Sprintf(answer, false, 5, 3, 0, 900000, 0, true, "login", `"login"`)},
		{"a refund", `{"policy":"login","key":"k","cost":2}`, "/v1/refund", `{"policy":"login","key":"k"}`, 200, fmt.Sprintf(answer, true, 5, 4, 0, 900000, 0, false, "login", "")},
		{"a refund of too much", `{"policy":"login","key":"k","cost":2}`, "/v1/refund", `{"policy":"login","key":"k","cost":9}`, 200, fmt.Sprintf(answer, true, 5, 5, 0, 0, 0, false, "login", "")},
		{"a reset", `{"policy":"login","key":"k","cost":5}`, "/v1/reset", `{"policy":"login","key":"k"}`, 200, fmt.Sprintf(answer, true, 5, 5, 0, 0, 0, false, "login", "")},
		{"a refund of several", `{"policy":"login","key":"k","cost":5}`, "/v1/refund", `{"checks":[{"policy":"login","key":"k"},{"policy":"login","key":"k"}]}`, 200, fmt.Sprintf(answer, true, 5, 2, 0, 900000, 0, false, "login", "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, nil)
			if tt.setup != "" {
				if got := s.post("/v1/check", tt.setup); got.status != 200 {
					t.Fatalf("setup: %+v", got)
				}
			}
			got := s.post(tt.path, tt.body)
			got.body = wholeSeconds(got.body)
			if got.status != tt.status || !strings.HasPrefix(got.body, tt.want) {
				t.Errorf("%s %s:\n got %d %s\nwant %d %s", tt.path, tt.body, got.status, got.body, tt.status, tt.want)
			}
			if ct := got.header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("Content-Type: got %q", ct)
			}
			if got.header.Get("RateLimit-Policy") == "" || got.header.Get("RateLimit") == "" {
				t.Errorf("header fields are missing: %v", got.header)
			}
		})
	}
}

// wholeSeconds rounds reset_after_ms up to a second: a few ms pass between two requests.
func wholeSeconds(body string) string {
	var a struct {
		Reset int64 `json:"reset_after_ms"`
	}
	if json.Unmarshal([]byte(body), &a) != nil {
		return body
	}
	return strings.Replace(body, fmt.Sprintf(`"reset_after_ms":%d,`, a.Reset), fmt.Sprintf(`"reset_after_ms":%d,`, (a.Reset+999)/1000*1000), 1)
}

func TestDenialRetryAfter(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	var a struct {
		Allowed bool     `json:"allowed"`
		Retry   int64    `json:"retry_after_ms"`
		Denied  []string `json:"denied_by"`
	}
	for i := range 6 {
		got := s.post("/v1/check", `{"limit":"5/365d burst 5","key":"k"}`)
		if err := json.Unmarshal([]byte(got.body), &a); err != nil || a.Allowed != (i < 5) {
			t.Fatalf("request %d: %+v, %v", i+1, got, err)
		}
		if i < 5 {
			if got.header.Get("Retry-After") != "" || got.header.Get("Cache-Control") != "" {
				t.Errorf("request %d is allowed and has %v", i+1, got.header)
			}
			continue
		}
		if got.status != 429 || got.header.Get("Retry-After") != "6307200" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("denied: %d %v, want 429, Retry-After 6307200, no-store", got.status, got.header)
		}
		if a.Retry <= 6307199000 || a.Retry > 6307200000 || len(a.Denied) != 1 || a.Denied[0] != "5/365d burst 5" {
			t.Errorf("denied: %s", got.body)
		}
	}
	if got := s.post("/v1/check", `{"limit":"5/365d","key":"k","cost":6}`); got.status != 429 || got.header.Get("Retry-After") != "" {
		t.Errorf("never: %d, Retry-After %q, want 429 without", got.status, got.header.Get("Retry-After"))
	}
}

func TestLeakyBucketDelay(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	body := `{"limit":"1/1h queue 2","algorithm":"leaky_bucket","key":"k"}`
	for i, want := range []int{0, 1, 2} {
		var a struct {
			Delay int64 `json:"delay_ms"`
		}
		got := s.post("/v1/check", body)
		if err := json.Unmarshal([]byte(got.body), &a); err != nil || got.status != 200 || (a.Delay+3_599_999)/3_600_000 != int64(want) {
			t.Errorf("request %d: %d %s, want a delay of %d h", i+1, got.status, got.body, want)
		}
	}
	if got := s.post("/v1/check", body); got.status != 429 {
		t.Errorf("request 4: %d, want 429", got.status)
	}
}

const secret = "person@example.com"

func TestProblems(t *testing.T) {
	t.Parallel()
	const key = `"key":"` + secret + `"`
	s := serve(t, &httpapi.Options{MaxBodyBytes: 64 << 10}, nil)
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		field, said              string
	}{
		{"no such path", "POST", "/v2/check", `{}`, 404, "", "/v1/check"},
		{"a slash too many", "POST", "/v1/check/", `{}`, 404, "", "/v1/check"},
		{"wrong method for the root", "POST", "/", ``, 405, "", "must be GET or HEAD"},
		{"wrong method", "GET", "/v1/check", ``, 405, "", "the method is not allowed; must be POST"},
		{"wrong method for health", "POST", "/livez", ``, 405, "", "must be GET or HEAD"},
		{"wrong method for health", "DELETE", "/readyz", ``, 405, "", "must be GET or HEAD"},
		{"no JSON", "POST", "/v1/check", `key=` + secret, 400, "", "malformed JSON at byte 0"},
		{"cut off", "POST", "/v1/check", `{"limit":"10/s",` + key, 400, "", "malformed JSON at byte"},
		{"cut off in the key", "POST", "/v1/check", `{"limit":"10/s","key":"` + secret, 400, "key", "unterminated"},
		{"not UTF-8", "POST", "/v1/check", `{"limit":"10/s","key":"` + secret + "\xff\"}", 400, "key", "invalid UTF-8"},
		{"unknown field", "POST", "/v1/check", `{"limit":"10/s","kye":"` + secret + `"}`, 400, "kye", `unknown field "kye"; did you mean "key"?`},
		{"wrong type", "POST", "/v1/check", `{"limit":10,` + key + `}`, 400, "limit", `field "limit" must be a string, not a number`},
		{"negative cost", "POST", "/v1/check", `{"limit":"10/s",` + key + `,"cost":-1}`, 400, "cost", "the request has an invalid cost: cost is -1; must be 0 or more"},
		{"nonsense", "POST", "/v1/check", `{"limit":"10/fortnight",` + key + `}`, 400, "limit", `invalid limit "10/fortnight": column 4: expected a unit`},
		{"outside", "POST", "/v1/check", `{"limit":"0/s",` + key + `}`, 400, "limit", "rate is 0"},
		{"in the second check", "POST", "/v1/check", `{"checks":[{"limit":"10/s",` + key + `},{"limit":"10","key":"k"}]}`, 400, "checks[1].limit", "expected a slash"},
		{"unknown algorithm", "POST", "/v1/check", `{"limit":"10/s","algorithm":"magic",` + key + `}`, 400, "algorithm", "token_bucket_interval"},
		{"unknown policy", "POST", "/v1/check", `{"policy":"logn",` + key + `}`, 404, "policy", `unknown policy "logn"; did you mean "login"?`},
		{"unknown policy in a check", "POST", "/v1/peek", `{"checks":[{"policy":"logn",` + key + `}]}`, 404, "checks[0].policy", `unknown policy`},
		{"a long key", "POST", "/v1/check", `{"policy":"login","key":"` + strings.Repeat(secret, 60) + `"}`, 400, "key", "1080 bytes; must be at most 1024"},
		{"a refund above 2^53-1", "POST", "/v1/refund", `{"checks":[{"policy":"login",` + key + `},{"policy":"login",` + key + `,"cost":9007199254740992}]}`, 400, "checks[1].cost", "must be 0 to 9007199254740991"},
		{"many checks", "POST", "/v1/refund", `{"checks":[` + strings.Repeat(`{"policy":"login",`+key+`},`, 32) + `{}]}`, 400, "checks", "at most 32 checks"},
		{"a long body", "POST", "/v1/check", `{"policy":"login",` + key + strings.Repeat(" ", 64<<10) + `}`, 413, "", "at most 65536 bytes"},
		{"depth", "POST", "/v1/reset", `{"checks":` + strings.Repeat(`[`, 50<<10), 400, "checks[0]", `field "checks[0]" must be an object, not an array`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := s.do(tt.method, tt.path, tt.body)
			if got.status != tt.status {
				t.Errorf("status %d, want %d: %s", got.status, tt.status, got.body)
			}
			var p struct {
				Type, Title, Detail, Field string
				Status                     int
			}
			d := json.NewDecoder(strings.NewReader(got.body))
			d.DisallowUnknownFields()
			if err := d.Decode(&p); err != nil || got.header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%v, %s: %s", err, got.header.Get("Content-Type"), got.body)
			}
			if p.Status != tt.status || p.Title != http.StatusText(tt.status) || p.Type != "about:blank" || p.Field != tt.field || !strings.Contains(p.Detail, tt.said) {
				t.Errorf("got %+v, want status %d, field %q, a detail that contains %q", p, tt.status, tt.field, tt.said)
			}
			if strings.Contains(p.Detail, "\n") {
				t.Errorf("the detail has several lines: %q", p.Detail)
			}
			if strings.Contains(got.body, secret) || strings.Contains(s.log.String(), secret) {
				t.Errorf("the key is in the body or the log: %s\n%s", got.body, s.log)
			}
			if allow := got.header.Get("Allow"); (allow != "") != (tt.status == 405) {
				t.Errorf("Allow: %q", allow)
			}
			if got.header.Get("RateLimit") != "" {
				t.Errorf("RateLimit without a decision: %v", got.header)
			}
		})
	}
}

// A body of unknown length is read no further than the limit.
func TestLongBodyWithoutLength(t *testing.T) {
	t.Parallel()
	s := serve(t, &httpapi.Options{MaxBodyBytes: 100}, nil)
	for _, tt := range []struct{ blanks, status int }{{0, 200}, {200, 413}, {1 << 20, 413}} {
		body := `{"policy":"login","key":"k"}` + strings.Repeat(" ", tt.blanks)
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v1/check", io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%d spaces after the object: status %d, want %d", tt.blanks, resp.StatusCode, tt.status)
		}
	}
}

func TestStoreFailureIs503(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/check", "/v1/peek", "/v1/refund", "/v1/reset"} {
		got := s.post(path, `{"policy":"login","key":"`+secret+`"}`)
		if got.status != 503 || !strings.Contains(got.body, "store is closed") || strings.Contains(got.body, secret) ||
			!strings.Contains(got.body, "#temporary-reduced-capacity") || got.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s, want 503 and why", path, got.status, got.body)
		}
	}
	if got := s.do("GET", "/livez", ""); got.status != 200 {
		t.Errorf("/livez: %d, want 200 whatever the store does", got.status)
	}
}

// A response contains neither the store's address nor the advice for operators: both are
// only logged.
func TestProblemsContainNoAddress(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1"
	store := must(redisstore.Open("redis://"+nobody, nil))
	defer store.Close()
	h := httpapi.New(must(engine.New(store, nil)), nil)
	for _, path := range []string{"/v1/check", "/v1/peek", "/v1/refund", "/v1/reset"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"limit":"5/1m","key":"k"}`)))
		if got := w.Body.String(); w.Code != 503 || !strings.Contains(got, `"detail":"the store could not decide: unreachable"`) {
			t.Errorf("%s: got %d %s want 503, and that the store is unreachable", path, w.Code, got)
		}
	}
}

// While a control plane is unavailable, or has sent no valid rules, an instance is ready
// but degraded.
func TestReadyzControlPlane(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		connected, configured bool
		want                  string
	}{
		{true, true, `{"status":"ok","store":"memory","control_plane":{"connected":true,"configured":true}}`},
		{false, true, `{"status":"degraded","store":"memory","control_plane":{"connected":false,"configured":true}}`},
		{true, false, `{"status":"degraded","store":"memory","control_plane":{"connected":true,"configured":false}}`},
	} {
		s := serveHealth(t, &httpapi.HealthOptions{Store: "memory", ControlPlane: func() (bool, bool) { return c.connected, c.configured }}, nil, nil)
		if got := s.do("GET", "/readyz", ""); got.status != 200 || got.body != c.want {
			t.Errorf("got %d %s want %s", got.status, got.body, c.want)
		}
	}
}

// An instance whose store has an unavailable node is ready but degraded.
func TestReadyzNodes(t *testing.T) {
	t.Parallel()
	for nodes, want := range map[int]string{
		0: `{"status":"ok","store":"memory"}`,
		2: `{"status":"degraded","store":"memory","nodes_unavailable":2}`,
	} {
		s := serveHealth(t, &httpapi.HealthOptions{Store: "memory", NodesUnavailable: func() int { return nodes }}, nil, nil)
		if got := s.do("GET", "/readyz", ""); got.status != 200 || got.body != want {
			t.Errorf("got %d %s want %s", got.status, got.body, want)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s := serveHealth(t, &httpapi.HealthOptions{Store: "memory"}, nil, nil)
	for _, method := range []string{"GET", "HEAD"} {
		for path, want := range map[string]string{"/livez": "ok\n", "/readyz": `{"status":"ok","store":"memory"}`} {
			if method == "HEAD" {
				want = ""
			}
			if got := s.do(method, path, ""); got.status != 200 || got.body != want {
				t.Errorf("%s %s: %d %q, want 200 %q", method, path, got.status, got.body, want)
			}
		}
	}
	s.server.Drain()
	got := s.do("GET", "/readyz", "")
	if got.status != 503 || got.body != `{"status":"draining","store":"memory"}` {
		t.Errorf("/readyz while draining: %d %s", got.status, got.body)
	}
	if got := s.do("GET", "/livez", ""); got.status != 200 {
		t.Errorf("/livez while draining: %d, want 200", got.status)
	}
	if got := s.post("/v1/check", `{"policy":"login","key":"k"}`); got.status != 200 {
		t.Errorf("a check while draining: %d, want 200", got.status)
	}
}

// T1, over the network: many connections, one key, the allowed requests are the limit.
func TestConcurrentClients(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	s.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 32
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 10 {
				switch got := s.post("/v1/check", `{"checks":[{"limit":"100/365d","key":"k"},{"limit":"200/300d","algorithm":"sliding_log","key":"k"}]}`); got.status {
				case 200:
					admitted.Add(1)
				case 429:
				default:
					t.Errorf("%+v", got)
				}
			}
		})
	}
	wg.Wait()
	if got := admitted.Load(); got != 100 {
		t.Errorf("%d of 320 were admitted, want 100", got)
	}
}
