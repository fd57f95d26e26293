package demo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/internal/micros"
	"github.com/headgate/headgate/memstore"
)

// order is the order of the panels.
var order = func() (names []headgate.Algorithm) {
	for _, a := range algo.Rates() {
		if !a.Name.HasCalendar() { // it decides like fixed_window
			names = append(names, a.Name)
		}
	}
	return names
}()

// TestDecisionsAreTheLimiters: limiters decide every click, and the journal and the
// events contain their decisions.
func TestDecisionsAreTheLimiters(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{})
	p := newTab(t, s.URL)
	p.set(t, hourly(10, 5))
	p.mustAct(t, map[string]any{"do": "send", "n": 1})
	p.mustAct(t, map[string]any{"do": "send", "n": 24})
	got := p.state(t)
	if got.Sent != 25 || len(got.Tracks) != 1 {
		t.Fatalf("got %d requests on %d tracks want 25 on one", got.Sent, len(got.Tracks))
	}
	for i, g := range got.Tracks[0].Gates {
		want := int64(10)
		if order[i].Queues() {
			want = 6 // one allowed immediately and five queued
		}
		if headgate.Algorithm(g.Algorithm) != order[i] || g.Allowed != want || g.Denied != 25-want || g.Undecided != 0 {
			t.Errorf("%s: got %+v want %d allowed of 25 of %s", g.Algorithm, g, want, order[i])
		}
		if g.Last.Seq != 25 || g.Last.Allowed || g.Last.Remaining != 0 || g.Last.Limit != want || g.Last.RetryUS == 0 {
			t.Errorf("%s: the last answer is %+v; want the denial of request 25", g.Algorithm, g.Last)
		}
		p.mustAgreeWithStore(t, s.store, got.Settings, order[i], g)
	}
	if len(got.Rows) == 0 || got.Rows[0].Seq != 25 || len(got.Rows[0].Answers) != len(order) {
		t.Errorf("rows: got %+v want the newest first, with an answer of each", got.Rows)
	}
	var f frame
	undecided := func(g gateState) bool { return g.Allowed+g.Denied != 25 }
	for f.Sent != 25 || f.Tracks == nil || slices.ContainsFunc(f.Tracks[0].Gates, undecided) {
		p.next(t, "frame", &f)
	}
	for i, g := range f.Tracks[0].Gates {
		if kept := got.Tracks[0].Gates[i]; g.Allowed != kept.Allowed || g.Denied != kept.Denied {
			t.Errorf("%s: the page shows %d and %d, the journal has %d and %d", order[i], g.Allowed, g.Denied, kept.Allowed, kept.Denied)
		}
	}
}

// mustAgreeWithStore compares with a limiter of the test that uses the page's policy
// and key.
func (p *tab) mustAgreeWithStore(t *testing.T, store headgate.Store, s demo.Settings, a headgate.Algorithm, g gateState) {
	t.Helper()
	limit := headgate.Limit{Rate: s.Rate, Period: time.Duration(s.PeriodMS) * time.Millisecond}
	if a.Queues() {
		limit.Queue = s.Queue
	}
	limiter, err := headgate.New(store, headgate.Policy{Name: "demo", Limits: []headgate.Limit{limit}, Algorithm: a}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := limiter.PeekN(t.Context(), s.Key, s.Cost)
	if err != nil || d.Allowed != g.Last.Allowed || d.Remaining != g.Last.Remaining || d.RetryAfter > micros.Duration(g.Last.RetryUS) {
		t.Errorf("%s: the store says %+v, %v; the page %+v", a, d, err, g.Last)
	}
}

// TestChangesKeepWhatWasSpent: a changed limit keeps what was spent under the same key;
// another key has its own budget; a reset clears it.
func TestChangesKeepWhatWasSpent(t *testing.T) {
	t.Parallel()
	p := newTab(t, serve(t, demo.Options{}).URL)
	p.set(t, hourly(10, 9))
	p.mustAct(t, map[string]any{"do": "send", "n": 4})
	left := func(want int64) {
		t.Helper()
		p.mustAct(t, map[string]any{"do": "send", "n": 1})
		for _, g := range p.state(t).Tracks[0].Gates {
			if g.Last.Remaining != want {
				t.Errorf("%s: got %d left want %d", g.Algorithm, g.Last.Remaining, want)
			}
		}
	}
	left(5)
	key := p.state(t).Settings.Key
	p.set(t, func(s *demo.Settings) { s.Key = key + "-other" })
	left(9)
	p.set(t, func(s *demo.Settings) { s.Key = key })
	left(4)
	p.set(t, func(s *demo.Settings) { s.Rate, s.Burst, s.Queue = 5, 5, 4 }) // six were spent
	p.mustAct(t, map[string]any{"do": "send", "n": 1})
	after := map[headgate.Refill]int64{ // half the time of six units is three
		headgate.RefillContinuous: 1, headgate.RefillStepped: 3,
	}
	for i, g := range p.state(t).Tracks[0].Gates {
		want, some := after[order[i].Refill()]
		if g.Last.Allowed != some || g.Last.Remaining != want {
			t.Errorf("%s under half the limit: got %+v want %d left, allowed %t", g.Algorithm, g.Last, want, some)
		}
	}
	p.mustAct(t, map[string]any{"do": "reset"})
	p.set(t, hourly(10, 9))
	left(9)
	if s := p.state(t); s.Tracks[0].Gates[0].Allowed != 1 {
		t.Errorf("after a reset: got %+v want a new count", s.Tracks[0].Gates[0])
	}
}

// TestEdgeFollowsPeriod: the end of a window that the page draws and the first scenario
// uses is the end for the current period, not for a longer previous one.
func TestEdgeFollowsPeriod(t *testing.T) {
	t.Parallel()
	p := newTab(t, serve(t, demo.Options{}).URL)
	for _, ms := range []int64{3_600_000, 4000} {
		p.set(t, func(s *demo.Settings) { s.PeriodMS = ms })
		for p.pageState.Settings.PeriodMS != ms {
			p.next(t, "state", &p.pageState)
		}
		p.mustAct(t, map[string]any{"do": "send", "n": 1}) // when idle, the next frame may take a second
		var f struct{ T, Edge int64 }
		p.next(t, "frame", &f)
		if wait := f.Edge - f.T; wait < -1_000_000 || wait > ms*1000 {
			t.Errorf("a period of %d ms: its window ends in %d µs", ms, wait)
		}
	}
}

// TestResetRestartsCounts: a reset restarts all counts; a HEAD request opens no
// session.
func TestResetRestartsCounts(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{MaxSessions: 1})
	resp, err := http.Head(s.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("the head of the stream: got %q", got)
	}
	p := newTab(t, s.URL)
	for _, again := range []string{"reset", "scenario"} {
		p.mustAct(t, map[string]any{"do": "send", "n": 7})
		p.mustAct(t, map[string]any{"do": again, "scenario": "edge"})
		p.mustAct(t, map[string]any{"do": "stop"})
		if k := p.state(t); k.Sent > 6 || len(k.Rows) != int(k.Sent) {
			t.Errorf("after %s: got %d sent and %d rows want what came since", again, k.Sent, len(k.Rows))
		}
	}
	p.mustAct(t, map[string]any{"do": "reset"})
	p.mustAct(t, map[string]any{"do": "send", "n": 3})
	if k := p.state(t); k.Sent != 3 || k.Rows[0].Seq != 3 {
		t.Errorf("three requests after a reset: got %d, the newest is %+v", k.Sent, k.Rows[0])
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	p := newTab(t, serve(t, demo.Options{}).URL)
	p.set(t, hourly(10, 9))
	for _, c := range []struct {
		cost, left int64
		never      bool
	}{{0, 10, false}, {4, 6, false}, {11, 6, true}} {
		p.set(t, func(s *demo.Settings) { s.Cost = c.cost })
		p.mustAct(t, map[string]any{"do": "send", "n": 1})
		for _, g := range p.state(t).Tracks[0].Gates {
			if g.Last.Remaining != c.left || g.Last.Never != c.never {
				t.Errorf("%s, cost %d: got %+v want %d left, never %t", g.Algorithm, c.cost, g.Last, c.left, c.never)
			}
		}
	}
}

// TestStream: a stream continues at its rate until it is stopped; the rate can be
// changed.
func TestStream(t *testing.T) {
	t.Parallel()
	p := newTab(t, serve(t, demo.Options{}).URL)
	p.mustAct(t, map[string]any{"do": "stream", "rate": 1000})
	p.until(t, "a hundred requests", func(s state) bool { return s.Sent >= 100 && s.Playing == "stream" })
	p.mustAct(t, map[string]any{"do": "stream", "rate": 10_000})
	p.until(t, "a thousand more", func(s state) bool { return s.Sent >= 1100 })
	p.mustAct(t, map[string]any{"do": "stop"})
	s := p.state(t)
	if s.Playing != "" {
		t.Errorf("after stop: %q goes on", s.Playing)
	}
	for _, g := range s.Tracks[0].Gates {
		if g.Allowed+g.Denied != s.Sent {
			t.Errorf("%s: %d and %d are not the %d sent", g.Algorithm, g.Allowed, g.Denied, s.Sent)
		}
	}
	if again := p.state(t); again.Sent != s.Sent {
		t.Errorf("after stop: %d more were sent", again.Sent-s.Sent)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	p := newTab(t, serve(t, demo.Options{}).URL)
	settings := func(change func(*demo.Settings)) map[string]any {
		s := p.pageState.Settings
		change(&s)
		return map[string]any{"do": "set", "settings": s}
	}
	for _, c := range []struct {
		action map[string]any
		status int
		field  string
	}{
		{map[string]any{"do": "send", "n": 0}, 400, "n"},
		{map[string]any{"do": "send", "n": 1001}, 400, "n"},
		{map[string]any{"do": "send", "n": -1}, 400, "n"},
		{map[string]any{"do": "send", "n": 1.5}, 400, ""},
		{map[string]any{"do": "send", "n": 1, "more": 1}, 400, ""},
		{map[string]any{"do": "stream", "rate": 0}, 400, "stream"},
		{map[string]any{"do": "stream", "rate": 10_001}, 400, "stream"},
		{map[string]any{"do": "stream", "rate": -4}, 400, "stream"},
		{map[string]any{"do": "set"}, 400, "settings"},
		{map[string]any{"do": "fly"}, 400, "do"},
		{map[string]any{"do": "scenario", "scenario": "flood"}, 400, "scenario"},
		{map[string]any{"do": "stop", "session": "another"}, 404, ""},
		{settings(func(s *demo.Settings) { s.Rate = 0 }), 400, "rate"},
		{settings(func(s *demo.Settings) { s.Rate = 10_001 }), 400, "rate"},
		{settings(func(s *demo.Settings) { s.PeriodMS = 99 }), 400, "period_ms"},
		{settings(func(s *demo.Settings) { s.PeriodMS = 3_600_001 }), 400, "period_ms"},
		{settings(func(s *demo.Settings) { s.Burst = 0 }), 400, "burst"},
		{settings(func(s *demo.Settings) { s.Queue = -1 }), 400, "queue"},
		{settings(func(s *demo.Settings) { s.Cost = -1 }), 400, "cost"},
		{settings(func(s *demo.Settings) { s.Key = strings.Repeat("k", 129) }), 400, "key"},
		{settings(func(s *demo.Settings) { s.Key = "a\nb" }), 400, "key"},
		{settings(func(s *demo.Settings) { s.Dialect = "draft-99" }), 400, "dialect"},
	} {
		status, problem := p.act(t, c.action)
		if status != c.status || problem["field"] != c.field || problem["detail"] == "" {
			t.Errorf("%v: got %d %v want %d and field %q", c.action, status, problem, c.status, c.field)
		}
	}
	for _, body := range []string{"", "{", "[]", `{"do":"stop"} {}`, `{"do":"` + strings.Repeat("x", 5000) + `"}`} {
		if status, _ := p.post(t, body); status != http.StatusBadRequest {
			t.Errorf("%.20q: got %d want 400", body, status)
		}
	}
	if s := p.state(t); s.Sent != 0 || s.Settings != p.pageState.Settings {
		t.Errorf("after all that: got %+v want nothing changed", s)
	}
}

// TestSessionsAreBounded: the number of sessions is bounded; a session that ends makes
// room.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{MaxSessions: 2})
	first, second := newTab(t, s.URL), newTab(t, s.URL)
	if status := get(t, s.URL+"/events", nil); status != http.StatusServiceUnavailable {
		t.Errorf("a third page: got %d want 503", status)
	}
	first.mustAct(t, map[string]any{"do": "stream", "rate": 10_000})
	first.close()
	deadline := time.Now().Add(deadline)
	for get(t, s.URL+"/state?session="+first.session, nil) != http.StatusNotFound {
		if time.Now().After(deadline) {
			t.Fatal("the first session did not end with its stream")
		}
		time.Sleep(10 * time.Millisecond) // the server notices the disconnect with a delay
	}
	newTab(t, s.URL)
	second.mustAct(t, map[string]any{"do": "send", "n": 1})
}

func TestIdleSessionsEnd(t *testing.T) {
	t.Parallel()
	p := newTab(t, serve(t, demo.Options{IdleTimeout: 50 * time.Millisecond}).URL)
	p.next(t, "bye", &struct{}{})
	for p.lines.Scan() {
		if p.lines.Text() != "" {
			t.Errorf("behind its end the stream says %q", p.lines.Text())
		}
	}
}

func TestCloseEndsSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{})
	p := newTab(t, s.URL)
	p.mustAct(t, map[string]any{"do": "scenario", "scenario": "patience"})
	s.page.Close()
	for p.lines.Scan() {
	}
	if status := get(t, s.URL+"/events", nil); status != http.StatusServiceUnavailable {
		t.Errorf("after Close: got %d want 503", status)
	}
}

// TestStreamOutlivesTimeouts: the timeouts of the server do not end the event stream.
func TestStreamOutlivesTimeouts(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	defer store.Close()
	page, err := demo.New(store, &demo.Options{OwnStore: small})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(page)
	s.Config.ReadTimeout, s.Config.WriteTimeout = 700*time.Millisecond, 700*time.Millisecond
	s.Start()
	defer s.Close()
	defer page.Close()
	p := newTab(t, s.URL)
	for range 2 { // when idle, one frame is sent per second
		p.next(t, "frame", &frame{})
	}
	p.mustAct(t, map[string]any{"do": "send", "n": 1})
}

// TestStoreUnavailable: with a closed store, the page shows the error and continues.
func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{})
	p := newTab(t, s.URL)
	s.store.Close()
	p.mustAct(t, map[string]any{"do": "send", "n": 3})
	for _, g := range p.state(t).Tracks[0].Gates {
		if g.Undecided != 3 || g.Allowed+g.Denied != 0 || g.Last.Error == "" || g.Last.Fields[0] != "503 Service Unavailable" {
			t.Errorf("%s: got %+v want three undecided", g.Algorithm, g)
		}
	}
}

// stuck is a store that blocks until the context ends.
type stuck struct{ headgate.Store }

type stuckBound struct{ headgate.Bound }

func (s stuck) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return stuckBound{b}, err
}

func (stuckBound) Apply(ctx context.Context, _ headgate.Instant, _ string, verb headgate.Verb, _ int64) (headgate.Decision, error) {
	if verb == headgate.Take {
		<-ctx.Done()
	}
	return headgate.Decision{}, headgate.ErrStoreUnavailable
}

// TestStopCancelsClick: Stop and Reset do not wait for a slow store; the remaining
// requests are undecided.
func TestStopCancelsClick(t *testing.T) {
	t.Parallel()
	store := stuck{small()}
	defer store.Close()
	page, err := demo.New(store, &demo.Options{OwnStore: small})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(page)
	defer s.Close()
	defer page.Close()
	p := newTab(t, s.URL)
	clicked := make(chan struct{})
	go func() {
		defer close(clicked)
		_, _ = p.act(t, map[string]any{"do": "send", "n": 50, "session": p.session})
	}()
	p.until(t, "a click that hangs", func(s state) bool { return s.Sent == 50 })
	p.mustAct(t, map[string]any{"do": "stop"})
	<-clicked
	for _, g := range p.state(t).Tracks[0].Gates {
		if g.Undecided != 50 {
			t.Errorf("%s: got %+v want 50 undecided", g.Algorithm, g)
		}
	}
}

// TestGuard: pages of other sites and foreign Host values are rejected; curl and the
// page itself are not.
func TestGuard(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{Hosts: []string{"demo.example"}})
	p := newTab(t, s.URL)
	own := strings.TrimPrefix(s.URL, "http://")
	for _, c := range []struct {
		name, host, method, path string
		header                   map[string]string
		want                     int
	}{
		{"the page", own, "GET", "/", nil, 200},
		{"localhost", "localhost:8080", "GET", "/", nil, 200},
		{"IPv6", "[::1]:8080", "GET", "/", nil, 200},
		{"an allowed name", "Demo.Example:8080", "GET", "/", nil, 200},
		{"a foreign name", "evil.example:8080", "GET", "/", nil, 421},
		{"a name that looks like an address", "127.0.0.1.evil.example", "GET", "/", nil, 421},
		{"no name", "", "GET", "/", nil, 421},
		{"curl", own, "POST", "/act", nil, 204},
		{"the page's own post", own, "POST", "/act", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": s.URL}, 204},
		{"a post from elsewhere", own, "POST", "/act", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}, 403},
		{"a post from another port", own, "POST", "/act", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"a post from elsewhere, old browser", own, "POST", "/act", map[string]string{"Origin": "http://evil.example"}, 403},
		{"a stream for elsewhere", own, "GET", "/events", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		{"a link from elsewhere", own, "GET", "/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		{"another method", own, "PUT", "/act", nil, 405},
		{"no such file", own, "GET", "/page.html", nil, 404},
		{"out of the folder", own, "GET", "/../demo.go", nil, 404},
	} {
		body := fmt.Sprintf(`{"session":%q,"do":"stop"}`, p.session)
		req := httptest.NewRequest(c.method, c.path, strings.NewReader(body))
		req.Host = c.host
		for name, value := range c.header {
			req.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.page.ServeHTTP(w, req)
		if w.Code != c.want && (c.want != 404 || w.Code != http.StatusTemporaryRedirect && w.Code != http.StatusMovedPermanently) {
			t.Errorf("%s: got %d want %d", c.name, w.Code, c.want)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'") {
			t.Errorf("%s: Content-Security-Policy is %q", c.name, csp)
		}
	}
}

func get(t testing.TB, url string, header map[string]string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
