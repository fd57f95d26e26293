package loginguard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// right is the password of the existing accounts, bob and ann.
const right = "correct horse"

// login responds with 303 to the right password, and with the same 401 to a wrong
// password and to an unknown account.
var login = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	user := r.FormValue("username")
	if (user == "bob" || user == "ann") && r.FormValue("password") == right {
		w.Header().Set("Location", "/home")
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	http.Error(w, "wrong name or password", http.StatusUnauthorized)
})

func form(from, user, password string) *http.Request {
	body := url.Values{"username": {user}, "password": {password}}.Encode()
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = from + ":4711"
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func mustServe(t *testing.T, h http.Handler, r *http.Request, want int) *httptest.ResponseRecorder {
	t.Helper()
	w := serve(h, r)
	if w.Code != want {
		t.Fatalf("status %d, body %q; want %d", w.Code, w.Body, want)
	}
	return w
}

func TestProtect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guard, err := loginguard.New(memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		mux.Handle("POST /login", guard.Protect(login))
		for range 5 {
			mustServe(t, mux, form("192.0.2.1", "bob", "guess"), http.StatusUnauthorized)
		}
		w := mustServe(t, mux, form("192.0.2.1", "bob", right), http.StatusTooManyRequests)
		if w.Header().Get("Retry-After") != "1" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("header %v; want Retry-After: 1 and Cache-Control: no-store", w.Header())
		}
		time.Sleep(900 * time.Millisecond)
		w = mustServe(t, mux, form("192.0.2.1", "bob", right), http.StatusTooManyRequests)
		if w.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q 0.1 s before the end; want 1, rounded up", w.Header().Get("Retry-After"))
		}
		time.Sleep(100 * time.Millisecond)
		for range 10 {
			mustServe(t, mux, form("192.0.2.1", "bob", right), http.StatusSeeOther)
		}
	})
}

// The responses to existing and unknown accounts are identical, byte for byte, before
// and after the client is denied, even if the owner is known and has failed before.
func TestResponsesDoNotRevealAccounts(t *testing.T) {
	t.Parallel()
	transcript := func(t *testing.T, user string, owner bool) (all []string) {
		synctest.Test(t, func(t *testing.T) {
			h := mustNew(t, memstore.New(nil), nil).Protect(login)
			if owner {
				mustServe(t, h, form("198.51.100.1", user, right), http.StatusSeeOther)
				mustServe(t, h, form("198.51.100.1", user, "typo"), http.StatusUnauthorized)
			}
			for n := range 60 {
				w := serve(h, form(fmt.Sprintf("192.0.2.%d", 1+n%4), user, "guess"))
				all = append(all, fmt.Sprint(w.Code, w.Header(), w.Body))
				time.Sleep(100 * time.Millisecond)
			}
		})
		return all
	}
	existing, unknown := transcript(t, "bob", true), transcript(t, "eve", false)
	if !reflect.DeepEqual(existing, unknown) {
		t.Errorf("responses differ:\nexisting %q\nunknown  %q", existing, unknown)
	}
	if !strings.Contains(strings.Join(existing, ""), "429") {
		t.Error("no request was denied; want some, to compare denials")
	}
}

// A denial does not reveal which limit denied.
func TestDenialsDoNotRevealLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := headgate.MustPolicy("1/1h").Limits
		none := []headgate.Limit{}
		responses := make(map[string]bool)
		for _, limits := range []loginguard.Limits{
			{Pair: one, Account: none, Address: none, Subnet: none},
			{Pair: none, Account: one, Address: none, Subnet: none},
			{Pair: none, Account: none, Address: one, Subnet: none},
			{Pair: none, Account: none, Address: none, Subnet: one},
			{Pair: none, Account: none, Address: none, Subnet: none, Total: one},
		} {
			h := mustNew(t, memstore.New(nil), &loginguard.Options{Limits: limits}).Protect(login)
			mustServe(t, h, form("192.0.2.1", "bob", "guess"), http.StatusUnauthorized)
			w := mustServe(t, h, form("192.0.2.1", "bob", right), http.StatusTooManyRequests)
			responses[fmt.Sprint(w.Header(), w.Body)] = true
		}
		if len(responses) != 1 {
			t.Errorf("denials by five kinds of limits differ: %v", responses)
		}
	})
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	reports := func(then http.HandlerFunc, calls ...func(*http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, call := range calls {
				call(r)
			}
			then(w, r)
		}
	}
	panics := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	early := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusForbidden)
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		outcome func(int, http.Header) loginguard.Outcome
		want    loginguard.EventKind
	}{
		{"no response", func(http.ResponseWriter, *http.Request) {}, nil, loginguard.KindSucceeded},
		{"200", status(200), nil, loginguard.KindSucceeded},
		{"body only", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }, nil, loginguard.KindSucceeded},
		{"303", status(303), nil, loginguard.KindSucceeded},
		{"400", status(400), nil, loginguard.KindFailed},
		{"401", status(401), nil, loginguard.KindFailed},
		{"403", status(403), nil, loginguard.KindFailed},
		{"403 after early hints", early, nil, loginguard.KindFailed},
		{"422", status(422), nil, loginguard.KindFailed},
		{"429", status(429), nil, loginguard.KindFailed},
		{"500", status(500), nil, loginguard.KindUnknown},
		{"503", status(503), nil, loginguard.KindUnknown},
		{"panics", panics, nil, loginguard.KindUnknown},
		{"200 and Failed", reports(status(200), loginguard.Failed), nil, loginguard.KindFailed},
		{"401 and Succeeded", reports(status(401), loginguard.Succeeded), nil, loginguard.KindSucceeded},
		{"Succeeded, then Failed", reports(status(200), loginguard.Succeeded, loginguard.Failed), nil, loginguard.KindFailed},
		{"Failed, then Succeeded", reports(status(200), loginguard.Failed, loginguard.Succeeded), nil, loginguard.KindFailed},
		{"Failed, then panic", reports(panics, loginguard.Failed), nil, loginguard.KindFailed},
		{"Succeeded, then panic", reports(panics, loginguard.Succeeded), nil, loginguard.KindSucceeded},
		{"101", status(101), nil, loginguard.KindUnknown},
		{"200 with AlwaysFailure", status(200), loginguard.AlwaysFailure, loginguard.KindFailed},
		{"custom Outcome", status(302), func(s int, _ http.Header) loginguard.Outcome {
			if s == 302 {
				return loginguard.Failure
			}
			return loginguard.Success
		}, loginguard.KindFailed},
		{"panic with custom Outcome", panics, func(int, http.Header) loginguard.Outcome { return loginguard.Success }, loginguard.KindUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &eventRecorder{}
			store := memstore.New(nil)
			g := mustNew(t, store, &loginguard.Options{Outcome: c.outcome, Observer: h, Limits: loginguard.Limits{Total: manyAttempts}})
			func() {
				defer func() { _ = recover() }()
				serve(g.Protect(c.handler), form("192.0.2.1", "bob", "guess"))
			}()
			if len(h.events) != 1 || h.events[0].Kind != c.want {
				t.Fatalf("events %+v; want one, %s", h.events, c.want)
			}
			refunded := c.want == loginguard.KindSucceeded
			if full := remaining(t, store, "login/address/1", headgate.MustParseLimit("100/24h"), h.events[0].Address) == 100; full != refunded {
				t.Errorf("refunded: %v; want %v", full, refunded)
			}
			if _, open := probeTotal(t, store, headgate.StoreClock); open {
				t.Error("the attempt is an open hold")
			}
		})
	}
}

// remaining returns the remaining units of one limit, by the name of the guard's policy.
func remaining(t *testing.T, store headgate.Store, policy string, limit headgate.Limit, key string) int64 {
	t.Helper()
	l, err := headgate.New(store, headgate.Policy{Name: policy, Limits: []headgate.Limit{limit}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.PeekN(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// A handler can flush and set deadlines.
func TestResponseController(t *testing.T) {
	t.Parallel()
	opts := &loginguard.Options{DeviceCookie: "known"}
	server := httptest.NewServer(mustNew(t, memstore.New(nil), opts).Protect(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			loginguard.Succeeded(r)
			if f, ok := w.(http.Flusher); ok { // as gin does, which panics otherwise
				f.Flush()
			} else {
				t.Error("the writer is not an http.Flusher")
			}
			control := http.NewResponseController(w)
			if err := errors.Join(control.SetWriteDeadline(time.Time{}), control.Flush()); err != nil {
				t.Error(err)
			}
		})))
	defer server.Close()
	got, err := http.PostForm(server.URL, url.Values{"username": {"bob"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	if len(got.Cookies()) != 1 {
		t.Errorf("cookies %v; want the device cookie, although the handler flushed first", got.Cookies())
	}
}

// Without a guard Failed and Succeeded do nothing.
func TestFailedAndSucceededWithoutGuard(t *testing.T) {
	t.Parallel()
	r := form("192.0.2.1", "bob", right)
	loginguard.Failed(r)
	loginguard.Succeeded(r)
}

// If a handler responds with 200 to wrong guesses, 20 successes per hour are accepted,
// and the guard warns.
func TestHandlerWithoutFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var warnings []string
		h := &eventRecorder{}
		g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h, Warn: func(m string) { warnings = append(warnings, m) }})
		h200 := g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for range 1000 {
			serve(h200, form("192.0.2.1", "bob", "guess"))
		}
		if got := h.kinds(); got[loginguard.KindSucceeded] != 20 || got[loginguard.KindUnconfirmed] != 5 || got[loginguard.KindDenied] != 975 {
			t.Errorf("1000 guesses on one account: %v; want 20 succeeded, 5 unconfirmed, and all others denied", got)
		}
		for n := range 200 {
			serve(h200, form(fmt.Sprintf("192.0.2.%d", n), name(n), "guess"))
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], "loginguard.Failed") {
			t.Errorf("warnings %q; want one with advice", warnings)
		}
	})
}

// If guesses fail at times, however rarely, the guard does not warn.
func TestHandlerWithRareFailures(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), &loginguard.Options{Warn: func(m string) { t.Errorf("warned: %s", m) }})
	h := g.Protect(login)
	always := g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for n := range 300 {
		serve(always, form(fmt.Sprintf("10.%d.0.1", n%250), name(n), right))
		if n%99 == 98 {
			mustServe(t, h, form("192.0.2.1", "eve", "guess"), http.StatusUnauthorized)
		}
	}
}

// Successes that the handler reports with Succeeded are not limited.
func TestReportedSuccessesAreUnlimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, memstore.New(nil), &loginguard.Options{Warn: func(m string) { t.Errorf("warned: %s", m) }})
		h := g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { loginguard.Succeeded(r) }))
		for range 300 {
			mustServe(t, h, form("192.0.2.1", "bob", right), http.StatusOK)
		}
	})
}

func TestAllowlist(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), &loginguard.Options{Allow: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("2001:db8::/32"),
	}})
	for _, from := range []string{"192.0.2.1", "[2001:db8::1]", "[::ffff:192.0.2.1]"} {
		for range 200 {
			mustServe(t, g.Protect(login), form(from, "bob", "guess"), http.StatusUnauthorized)
		}
	}
	statuses := make(map[int]int)
	for range 200 {
		statuses[serve(g.Protect(login), form("192.0.2.99", "bob", "guess")).Code]++
	}
	if statuses[http.StatusTooManyRequests] < 190 {
		t.Errorf("from outside the allowlist: %v; want nearly all denied", statuses)
	}
}

// Behind a trusted proxy the client is the forwarded address; otherwise it is the proxy.
func TestProxy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		client *clientaddr.Options
		want   int // guesses of 100 that reach the handler
	}{
		{"trusted", &clientaddr.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Warn: func(string) {}}, 100},
		{"not trusted", &clientaddr.Options{Warn: func(string) {}}, 30},
	} {
		h := mustNew(t, memstore.New(nil), &loginguard.Options{Client: c.client}).Protect(login)
		got := 0
		for n := range 100 {
			r := form("10.0.0.1", name(n), "guess")
			r.Header.Set("X-Forwarded-For", "203.0."+strconv.Itoa(n)+".7")
			if serve(h, r).Code == http.StatusUnauthorized {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d of 100 guesses from different networks reach the handler; want %d", c.name, got, c.want)
		}
	}
}

func TestDeniedHandler(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), &loginguard.Options{DeniedHandler: func(w http.ResponseWriter, r *http.Request, d *httplimit.Denial) {
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, "<form>wait %v, %v %v", d.RetryAfter > 0, d.Policies, d.DeniedBy)
		if r.FormValue("username") != "bob" {
			t.Error("the form cannot be read again")
		}
	}})
	for range 5 {
		serve(g.Protect(login), form("192.0.2.1", "bob", "guess"))
	}
	w := mustServe(t, g.Protect(login), form("192.0.2.1", "bob", "guess"), http.StatusTooManyRequests)
	if got := w.Body.String(); got != "<form>wait true, [login] []" || w.Header().Get("Retry-After") == "" {
		t.Errorf("body %q, header %v; want the form, only the guard's name, and Retry-After", got, w.Header())
	}
}

// Events list the limits that denied, and contain no names.
func TestEventsContainNoNames(t *testing.T) {
	t.Parallel()
	run := func(plain bool) []loginguard.Event {
		h := &eventRecorder{}
		g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h, PlainEvents: plain})
		for range 6 {
			serve(g.Protect(login), form("192.0.2.1", " Bob", "guess"))
		}
		return h.events
	}
	events := run(false)
	text, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"bob", "Bob", "192.0.2", "guess"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("events %s contain %q", text, secret)
		}
	}
	last := events[len(events)-1]
	if last.Kind != loginguard.KindDenied || !reflect.DeepEqual(last.DeniedBy, []string{"pair"}) || last.Form != "login" ||
		last.RetryAfter <= 0 {
		t.Errorf("last event %+v; want a denial by the pair with RetryAfter", last)
	}
	if last.Account != events[0].Account || last.Account == last.Address || len(last.Subnet) != 32 {
		t.Errorf("hashes %+v; want equal hashes for equal subjects, and different ones otherwise", last)
	}
	if e := run(true)[0]; e.Account != "bob" || !strings.HasPrefix(e.Address, "192.0.2.1") || !strings.HasPrefix(e.Subnet, "192.0.2.0/24") {
		t.Errorf("with PlainEvents: %+v; want bob, 192.0.2.1 and 192.0.2.0/24", e)
	}
}

// Two forms have separate state. A form without successes can use the known pairs of
// the login.
func TestForms(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	loginForm := mustNew(t, store, nil)
	reset := mustNew(t, store, &loginguard.Options{Name: "reset", KnownBy: "login", Outcome: loginguard.AlwaysFailure})
	owner := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustSucceed(t, noon, mustAttempt(t, loginForm, noon, owner))
	flood := &attacker{guard: reset, now: noon, next: func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(2+n, 1), Account: "bob"}
	}}
	flood.step(t)
	if flood.allowed != 20 {
		t.Errorf("%d mails sent to one account; want 20", flood.allowed)
	}
	if a := mustAttempt(t, reset, noon, owner); !a.Allowed() || !a.Known() {
		t.Errorf("the request of the owner: allowed %v, known %v; want both", a.Allowed(), a.Known())
	}
	mustSucceed(t, noon, mustAttempt(t, loginForm, noon, loginguard.Client{Addr: host(3, 1), Account: "bob"}))
}
