package loginguard_test

import (
	"context"
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
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// right is the password of everybody who exists: bob and ann.
const right = "correct horse"

// login answers 303 to who is right and 401 to who is wrong, and the same 401 to who does not exist.
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

func answer(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func mustAnswer(t *testing.T, h http.Handler, r *http.Request, want int) *httptest.ResponseRecorder {
	t.Helper()
	w := answer(h, r)
	if w.Code != want {
		t.Fatalf("status %d, body %q; want %d", w.Code, w.Body, want)
	}
	return w
}

func TestTwoLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guard, err := loginguard.New(memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		mux.Handle("POST /login", guard.Protect(login))
		for range 5 {
			mustAnswer(t, mux, form("192.0.2.1", "bob", "guess"), http.StatusUnauthorized)
		}
		w := mustAnswer(t, mux, form("192.0.2.1", "bob", right), http.StatusTooManyRequests)
		if w.Header().Get("Retry-After") != "1" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("header %v; want Retry-After: 1 and Cache-Control: no-store", w.Header())
		}
		time.Sleep(900 * time.Millisecond)
		w = mustAnswer(t, mux, form("192.0.2.1", "bob", right), http.StatusTooManyRequests)
		if w.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q with 0.1 s to go; want 1, never early", w.Header().Get("Retry-After"))
		}
		time.Sleep(100 * time.Millisecond)
		for range 10 {
			mustAnswer(t, mux, form("192.0.2.1", "bob", right), http.StatusSeeOther)
		}
	})
}

// A client that is told nothing but what it typed learns nothing: all that it gets, byte for byte, is the same for an account that
// exists and one that does not, until it is denied and beyond, also where the owner is known and has failed himself.
func TestNoDifferenceBetweenExistingAndUnknownAccounts(t *testing.T) {
	t.Parallel()
	transcript := func(t *testing.T, user string, owner bool) (all []string) {
		synctest.Test(t, func(t *testing.T) {
			h := mustNew(t, memstore.New(nil), nil).Protect(login)
			if owner {
				mustAnswer(t, h, form("198.51.100.1", user, right), http.StatusSeeOther)
				mustAnswer(t, h, form("198.51.100.1", user, "typo"), http.StatusUnauthorized)
			}
			for n := range 60 {
				w := answer(h, form(fmt.Sprintf("192.0.2.%d", 1+n%4), user, "guess"))
				all = append(all, fmt.Sprint(w.Code, w.Header(), w.Body))
				time.Sleep(100 * time.Millisecond)
			}
		})
		return all
	}
	existing, unknown := transcript(t, "bob", true), transcript(t, "eve", false)
	if !reflect.DeepEqual(existing, unknown) {
		t.Errorf("answers differ:\nexisting %q\nunknown  %q", existing, unknown)
	}
	if !strings.Contains(strings.Join(existing, ""), "429") {
		t.Error("none of them was denied; want some, as denials are to be compared")
	}
}

// Nor does it learn which limit it was.
func TestDenialsLookTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := headgate.MustPolicy("1/1h").Limits
		none := []headgate.Limit{}
		answers := make(map[string]bool)
		for _, limits := range []loginguard.Limits{
			{Pair: one, Account: none, Address: none, Subnet: none},
			{Pair: none, Account: one, Address: none, Subnet: none},
			{Pair: none, Account: none, Address: one, Subnet: none},
			{Pair: none, Account: none, Address: none, Subnet: one},
			{Pair: none, Account: none, Address: none, Subnet: none, Total: one},
		} {
			h := mustNew(t, memstore.New(nil), &loginguard.Options{Limits: limits}).Protect(login)
			mustAnswer(t, h, form("192.0.2.1", "bob", "guess"), http.StatusUnauthorized)
			w := mustAnswer(t, h, form("192.0.2.1", "bob", right), http.StatusTooManyRequests)
			answers[fmt.Sprint(w.Header(), w.Body)] = true
		}
		if len(answers) != 1 {
			t.Errorf("denials by five kinds of limits look different: %v", answers)
		}
	})
}

func TestHowATryEnded(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	says := func(then http.HandlerFunc, words ...func(*http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, say := range words {
				say(r)
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
		{"says nothing at all", func(http.ResponseWriter, *http.Request) {}, nil, loginguard.KindSucceeded},
		{"200", status(200), nil, loginguard.KindSucceeded},
		{"writes", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }, nil, loginguard.KindSucceeded},
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
		{"the form again, and says so", says(status(200), loginguard.Failed), nil, loginguard.KindFailed},
		{"401, and says that it succeeded", says(status(401), loginguard.Succeeded), nil, loginguard.KindSucceeded},
		{"succeeds, and then the second factor fails", says(status(200), loginguard.Succeeded, loginguard.Failed), nil, loginguard.KindFailed},
		{"fails first", says(status(200), loginguard.Failed, loginguard.Succeeded), nil, loginguard.KindFailed},
		{"says that it failed, and panics", says(panics, loginguard.Failed), nil, loginguard.KindFailed},
		{"says that it succeeded, and panics", says(panics, loginguard.Succeeded), nil, loginguard.KindSucceeded},
		{"another protocol", status(101), nil, loginguard.KindUnknown},
		{"200 where every try counts", status(200), loginguard.AlwaysFailure, loginguard.KindFailed},
		{"an outcome of its own", status(302), func(s int, _ http.Header) loginguard.Outcome {
			if s == 302 {
				return loginguard.Failure
			}
			return loginguard.Success
		}, loginguard.KindFailed},
		{"a panic where every try succeeds", panics, func(int, http.Header) loginguard.Outcome { return loginguard.Success }, loginguard.KindUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &heard{}
			store := memstore.New(nil)
			g := mustNew(t, store, &loginguard.Options{Outcome: c.outcome, Observer: h})
			func() {
				defer func() { _ = recover() }()
				answer(g.Protect(c.handler), form("192.0.2.1", "bob", "guess"))
			}()
			if len(h.events) != 1 || h.events[0].Kind != c.want {
				t.Fatalf("events %+v; want one, %s", h.events, c.want)
			}
			back := c.want == loginguard.KindSucceeded
			if full := remaining(t, store, "login/address/1", headgate.MustParseLimit("100/24h"), h.events[0].Address) == 100; full != back {
				t.Errorf("what was charged was given back: %v; want %v", full, back)
			}
		})
	}
}

// remaining is what is left of one limit: whoever names a guard's policy sees its state.
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

// A handler can reach what is below, as by net/http's own writer.
func TestHandlerCanFlush(t *testing.T) {
	t.Parallel()
	opts := &loginguard.Options{DeviceCookie: "known"}
	server := httptest.NewServer(mustNew(t, memstore.New(nil), opts).Protect(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			loginguard.Succeeded(r)
			if f, ok := w.(http.Flusher); ok { // as gin asks, and panics
				f.Flush()
			} else {
				t.Error("the writer is no http.Flusher")
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
		t.Errorf("cookies %v; want the device's, though the handler flushed first", got.Cookies())
	}
}

// Outside of a guard the words do nothing.
func TestWordsWithoutAGuard(t *testing.T) {
	t.Parallel()
	r := form("192.0.2.1", "bob", right)
	loginguard.Failed(r)
	loginguard.Succeeded(r)
}

// A handler that answers 200 to a wrong guess, and says nothing: its successes are believed 20 times an hour, and warned of.
func TestHandlerThatNeverFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var warnings []string
		h := &heard{}
		g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h, Warn: func(m string) { warnings = append(warnings, m) }})
		same := g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for range 1000 {
			answer(same, form("192.0.2.1", "bob", "guess"))
		}
		if got := h.kinds(); got[loginguard.KindSucceeded] != 20 || got[loginguard.KindUnconfirmed] != 5 || got[loginguard.KindDenied] != 975 {
			t.Errorf("1000 guesses at once on one account: %v; want 20 believed, 5 that were free, and all others denied", got)
		}
		for n := range 200 {
			answer(same, form(fmt.Sprintf("192.0.2.%d", n), name(n), "guess"))
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], "loginguard.Failed") {
			t.Errorf("warnings %q; want one that says what to call", warnings)
		}
	})
}

// Where a guess fails now and then all is well, however rare it is.
func TestHandlerThatFailsAtTimes(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), &loginguard.Options{Warn: func(m string) { t.Errorf("warned: %s", m) }})
	h := g.Protect(login)
	always := g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for n := range 300 {
		answer(always, form(fmt.Sprintf("10.%d.0.1", n%250), name(n), right))
		if n%99 == 98 {
			mustAnswer(t, h, form("192.0.2.1", "eve", "guess"), http.StatusUnauthorized)
		}
	}
}

// Whoever calls Succeeded is believed however often.
func TestWordIsBelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, memstore.New(nil), &loginguard.Options{Warn: func(m string) { t.Errorf("warned: %s", m) }})
		h := g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { loginguard.Succeeded(r) }))
		for range 300 {
			mustAnswer(t, h, form("192.0.2.1", "bob", right), http.StatusOK)
		}
	})
}

// An attacker who succeeds on an account of his own gets back what that try cost, and no more.
func TestSuccessGivesBackWhatItTookAndNoMore(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	g := mustNew(t, store, nil)
	guess := func(n int) bool {
		a := mustTry(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: name(n)})
		a.Failed()
		if err := a.SucceededAt(t.Context(), noon.Time()); err != nil { // after the word that counts
			t.Fatal(err)
		}
		return a.Allowed()
	}
	admitted := 0
	for n := range 200 {
		own := mustTry(t, g, noon, loginguard.Client{Addr: host(1, 2), Account: "mallory"})
		mine := mustTry(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: "mallory"})
		if guess(n) {
			admitted++
		}
		for range 3 { // only the first gives anything back
			for _, a := range []*loginguard.Attempt{own, mine} {
				if err := a.SucceededAt(t.Context(), noon.Time()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if admitted != 30 {
		t.Errorf("between successes of his own: %d guesses at once from one address; want 30, as without them", admitted)
	}
	late := after(day)
	a := mustTry(t, g, late, loginguard.Client{Addr: host(1, 3), Account: "carol"})
	mustSucceed(t, after(3*day), a) // long after all was full again
	left := headgate.MustPolicy("100/24h")
	left.Name = "login/address/1"
	for key, now := range map[string]headgate.Instant{"nobody": late} {
		l, err := headgate.New(store, left, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.PeekAt(t.Context(), now.Time(), key, 0); err != nil || d.Remaining != 100 {
			t.Errorf("remaining %d, error %v; want 100", d.Remaining, err)
		}
	}
	crowd := 0
	for n := range 200 {
		if mustTry(t, g, after(3*day), loginguard.Client{Addr: host(1, 3), Account: name(n)}).Allowed() {
			crowd++
		}
	}
	if crowd != 30 {
		t.Errorf("after a late success: %d guesses at once; want 30", crowd)
	}
}

func TestAllowList(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), &loginguard.Options{Allow: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("2001:db8::/32"),
	}})
	for _, from := range []string{"192.0.2.1", "[2001:db8::1]", "[::ffff:192.0.2.1]"} {
		for range 200 {
			mustAnswer(t, g.Protect(login), form(from, "bob", "guess"), http.StatusUnauthorized)
		}
	}
	statuses := make(map[int]int)
	for range 200 {
		statuses[answer(g.Protect(login), form("192.0.2.99", "bob", "guess")).Code]++
	}
	if statuses[http.StatusTooManyRequests] < 190 {
		t.Errorf("from beside the list: %v; want nearly all denied, and nothing charged to the account by those in it", statuses)
	}
}

// Behind a proxy the client is who the proxy says, if it is trusted, and else the proxy.
func TestBehindAProxy(t *testing.T) {
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
			if answer(h, r).Code == http.StatusUnauthorized {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d of 100 guesses, each said to come from another network, reach the handler; want %d", c.name, got, c.want)
		}
	}
}

// broken is a store that cannot decide. It is the real one, closed.
func broken(t *testing.T, opts *loginguard.Options) *loginguard.Guard {
	t.Helper()
	store := memstore.New(nil)
	g := mustNew(t, store, opts)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStoreThatCannotDecide(t *testing.T) {
	t.Parallel()
	h := &heard{}
	w := mustAnswer(t, broken(t, &loginguard.Options{Observer: h}).Protect(login), form("192.0.2.1", "bob", right), http.StatusServiceUnavailable)
	if w.Header().Get("Retry-After") == "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("header %v; want Retry-After and no-store", w.Header())
	}
	if len(h.events) != 1 || h.events[0].Kind != loginguard.KindError || !errors.Is(h.events[0].Err, headgate.ErrClosed) {
		t.Errorf("events %+v; want one error, with its cause", h.events)
	}
	own := broken(t, &loginguard.Options{ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusTeapot)
	}})
	mustAnswer(t, own.Protect(login), form("192.0.2.1", "bob", right), http.StatusTeapot)
}

// What cannot be given back is heard of, and stays charged.
func TestStoreThatIsLostDuringATry(t *testing.T) {
	t.Parallel()
	h := &heard{}
	store := memstore.New(nil)
	g := mustNew(t, store, &loginguard.Options{Observer: h})
	a := mustTry(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: "bob"})
	_ = store.Close()
	if err := a.Succeeded(t.Context()); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("error %v; want %v", err, headgate.ErrClosed)
	}
	if len(h.events) != 1 || h.events[0].Kind != loginguard.KindError {
		t.Errorf("events %+v; want one error", h.events)
	}
}

// A client that goes away once it has its answer does not keep a success charged.
func TestClientThatIsGone(t *testing.T) {
	t.Parallel()
	h := &heard{}
	store := mustOpenRedis(t, testserver.Redis(t)) // which minds whether its caller is gone
	t.Cleanup(func() { _ = store.Close() })
	g := mustNew(t, store, &loginguard.Options{Observer: h})
	ctx, cancel := context.WithCancel(t.Context())
	answer(g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		loginguard.Succeeded(r)
		cancel()
	})), form("192.0.2.1", "bob", right).WithContext(ctx))
	if len(h.events) != 1 || h.events[0].Kind != loginguard.KindSucceeded {
		t.Errorf("events %+v; want one success", h.events)
	}
}

func TestFormShownAgainWhenDenied(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), &loginguard.Options{DeniedHandler: func(w http.ResponseWriter, r *http.Request, d *httplimit.Denial) {
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, "<form>wait %v, %v %v", d.RetryAfter > 0, d.Policies, d.DeniedBy)
		if r.FormValue("username") != "bob" {
			t.Error("the form's fields cannot be read again")
		}
	}})
	for range 5 {
		answer(g.Protect(login), form("192.0.2.1", "bob", "guess"))
	}
	w := mustAnswer(t, g.Protect(login), form("192.0.2.1", "bob", "guess"), http.StatusTooManyRequests)
	if got := w.Body.String(); got != "<form>wait true, [login] []" || w.Header().Get("Retry-After") == "" {
		t.Errorf("body %q, header %v; want the form, the guard's name alone, and Retry-After", got, w.Header())
	}
}

// Events are for alerts: they say which limits, and nobody's name.
func TestEventsNameNobody(t *testing.T) {
	t.Parallel()
	run := func(clear bool) []loginguard.Event {
		h := &heard{}
		g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h, PlainEvents: clear})
		for range 6 {
			answer(g.Protect(login), form("192.0.2.1", " Bob", "guess"))
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
			t.Errorf("events %s hold %q", text, secret)
		}
	}
	last := events[len(events)-1]
	if last.Kind != loginguard.KindDenied || !reflect.DeepEqual(last.DeniedBy, []string{"pair"}) || last.Form != "login" ||
		last.RetryAfter <= 0 {
		t.Errorf("last event %+v; want a denial by the pair, with its wait", last)
	}
	if last.Account != events[0].Account || last.Account == last.Address || len(last.Subnet) != 32 {
		t.Errorf("hashes %+v; want the same for the same, and different ones for different things", last)
	}
	if e := run(true)[0]; e.Account != "bob" || !strings.HasPrefix(e.Address, "192.0.2.1") || !strings.HasPrefix(e.Subnet, "192.0.2.0/24") {
		t.Errorf("in clear: %+v; want bob, 192.0.2.1 and 192.0.2.0/24", e)
	}
}

// Two forms have states of their own; one on which nobody succeeds knows whom the login knows.
func TestSeveralForms(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	loginForm := mustNew(t, store, nil)
	reset := mustNew(t, store, &loginguard.Options{Name: "reset", KnownBy: "login", Outcome: loginguard.AlwaysFailure})
	owner := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustSucceed(t, noon, mustTry(t, loginForm, noon, owner))
	flood := &greedy{guard: reset, now: noon, next: func(try int) loginguard.Client {
		return loginguard.Client{Addr: host(2+try, 1), Account: "bob"}
	}}
	flood.step(t)
	if flood.tries != 20 {
		t.Errorf("%d mails sent at once to one account; want 20", flood.tries)
	}
	if a := mustTry(t, reset, noon, owner); !a.Allowed() || !a.Known() {
		t.Errorf("the owner's own request: allowed %v, known %v; want both", a.Allowed(), a.Known())
	}
	mustSucceed(t, noon, mustTry(t, loginForm, noon, loginguard.Client{Addr: host(3, 1), Account: "bob"}))
}

func TestOptionsThatCannotWork(t *testing.T) {
	t.Parallel()
	invalid := []headgate.Limit{{Rate: -1, Period: time.Second}}
	for _, c := range []struct {
		name string
		opts loginguard.Options
		want error
	}{
		{"short secret", loginguard.Options{Secret: []byte("short")}, loginguard.ErrInvalidOptions},
		{"empty secret", loginguard.Options{Secret: []byte{}}, loginguard.ErrInvalidOptions},
		{"long name", loginguard.Options{Name: strings.Repeat("x", 65)}, loginguard.ErrInvalidOptions},
		{"known for too short", loginguard.Options{KnownFor: time.Millisecond}, loginguard.ErrInvalidOptions},
		{"known for less than nothing", loginguard.Options{KnownFor: -1}, loginguard.ErrInvalidOptions},
		{"known for too long", loginguard.Options{KnownFor: 1 << 62}, loginguard.ErrInvalidOptions},
		{"network longer than the address", loginguard.Options{V6Subnet: 72}, loginguard.ErrInvalidOptions},
		{"bits", loginguard.Options{V6Address: 129}, loginguard.ErrInvalidOptions},
		{"cookie", loginguard.Options{DeviceCookie: "a b"}, loginguard.ErrInvalidOptions},
		{"network", loginguard.Options{Allow: []netip.Prefix{{}}}, loginguard.ErrInvalidOptions},
		{"network of mapped addresses", loginguard.Options{
			Allow: []netip.Prefix{netip.MustParsePrefix("::ffff:192.0.2.0/120")},
		}, loginguard.ErrInvalidOptions},
		{"too many limits", loginguard.Options{Limits: loginguard.Limits{Pair: make([]headgate.Limit, 33)}}, loginguard.ErrInvalidOptions},
		{"limit", loginguard.Options{Limits: loginguard.Limits{Total: invalid}}, headgate.ErrInvalidLimit},
		{"store error", loginguard.Options{OnStoreError: "perhaps"}, headgate.ErrInvalidPolicy},
	} {
		if _, err := loginguard.New(memstore.New(nil), &c.opts); !errors.Is(err, c.want) {
			t.Errorf("%s: got error %v want %v", c.name, err, c.want)
		}
	}
	if _, err := loginguard.New(nil, nil); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("no store: got error %v", err)
	}
}

// Without a secret, a store that others may share is warned of.
type elsewhere struct{ *memstore.Store }

func (elsewhere) Shared() bool { return true }

// foreign is a store that does not report whether it is shared.
type foreign struct{ headgate.Store }

func around(t *testing.T, inner headgate.Store) headgate.Store {
	store, err := fallback.New(inner, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestSecretIsAskedForWhereAStoreIsShared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		store  headgate.Store
		secret []byte
		want   int
	}{
		{"memory", memstore.New(nil), nil, 0},
		{"another", elsewhere{memstore.New(nil)}, nil, 1},
		{"another, with a secret", elsewhere{memstore.New(nil)}, secret, 0},
		{"one that does not report it", foreign{memstore.New(nil)}, nil, 1},
		{"memory, behind a fallback", around(t, memstore.New(nil)), nil, 0},
		{"another, behind a fallback", around(t, elsewhere{memstore.New(nil)}), nil, 1},
	} {
		warnings := 0
		_, err := loginguard.New(c.store, &loginguard.Options{Secret: c.secret, Warn: func(string) { warnings++ }})
		if err != nil || warnings != c.want {
			t.Errorf("%s: %d warnings, error %v; want %d", c.name, warnings, err, c.want)
		}
	}
}

// Another secret sees nothing of the state.
func TestSecretKeysEverything(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	c := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	one, other := mustNew(t, store, nil), mustNew(t, store, &loginguard.Options{Secret: []byte("another of 16 bytes and more")})
	mustSucceed(t, noon, mustTry(t, one, noon, c))
	if !mustTry(t, one, noon, c).Known() || mustTry(t, other, noon, c).Known() {
		t.Error("a pair is known under another secret, or not under its own")
	}
}
