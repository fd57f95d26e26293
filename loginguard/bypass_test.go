package loginguard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// Many handlers return without a word once their client is gone. An attacker who hangs up at once would have succeeded at every
// guess by the status that net/http makes of it, and be known.
func TestHangingUpIsNoSuccess(t *testing.T) {
	t.Parallel()
	success := func(status int, _ http.Header) loginguard.Outcome {
		if status < 400 {
			return loginguard.Success
		}
		return loginguard.Failure
	}
	for _, outcome := range []func(int, http.Header) loginguard.Outcome{nil, success} {
		h := &heard{}
		g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h, Outcome: outcome})
		for range 7 {
			ctx, hangUp := context.WithCancel(t.Context())
			answer(g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				hangUp()
				<-r.Context().Done() // what a query to a database returns at
			})), form("192.0.2.1", "bob", "guess").WithContext(ctx))
		}
		if got := h.kinds(); got[loginguard.KindUnknown] != 5 || got[loginguard.KindDenied]+got[loginguard.KindError] != 2 {
			t.Errorf("7 guesses of a client that hung up: %v; want 5 that stay charged, and 2 that are denied", got)
		}
	}
}

// Whoever asks for the form, with a name in its address, is not known by that; if only a status says that it went well.
func TestShowingAPageMakesNobodyKnown(t *testing.T) {
	t.Parallel()
	h := &heard{}
	g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h})
	page := g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	link := g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { loginguard.Succeeded(r) }))
	ask := func(h http.Handler, method string) {
		r := httptest.NewRequest(method, "/login?username=bob", nil)
		mustAnswer(t, h, r, http.StatusOK)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace} {
		for range 3 {
			ask(page, method)
		}
	}
	ask(link, http.MethodGet) // by a mail, say
	ask(link, http.MethodGet)
	for n, e := range h.events {
		if e.Kind != loginguard.KindSucceeded || e.Known != (n == 13) {
			t.Errorf("event %d: %s, known %v; want successes, and only the word of a handler to make one known", n, e.Kind, e.Known)
		}
	}
}

// What is answered over a connection that was taken over the guard does not see.
func TestHijackedIsNoSuccess(t *testing.T) {
	t.Parallel()
	h := &heard{}
	done := make(chan struct{})
	protected := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h}).Protect(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack() // as most who speak WebSocket ask
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			_ = conn.Close()
		}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protected.ServeHTTP(w, r)
		close(done)
	}))
	defer server.Close()
	got, err := http.PostForm(server.URL, url.Values{"username": {"bob"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	<-done
	if h.events[0].Kind != loginguard.KindUnknown {
		t.Errorf("%s; want neither", h.events[0].Kind)
	}
}

// A word is for all guards that the request came through.
func TestGuardAroundAGuard(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	for _, c := range []struct {
		say  func(*http.Request)
		want loginguard.EventKind
	}{{loginguard.Failed, loginguard.KindFailed}, {loginguard.Succeeded, loginguard.KindSucceeded}} {
		outer, inner := &heard{}, &heard{}
		g := mustNew(t, store, &loginguard.Options{Observer: outer}).Protect(
			mustNew(t, store, &loginguard.Options{Name: "second", Observer: inner}).Protect(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					c.say(r)
					w.WriteHeader(http.StatusOK)
				})))
		mustAnswer(t, g, form("192.0.2.1", "bob", "guess"), http.StatusOK)
		if outer.events[0].Kind != c.want || inner.events[0].Kind != c.want {
			t.Errorf("outer %s, inner %s; want both %s", outer.events[0].Kind, inner.events[0].Kind, c.want)
		}
	}
}

// A success for which no account was found shows that the guard does not look where the handler does.
func TestSuccessOfNobodyIsWarnedOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts loginguard.Options
		body string
		want int
	}{
		{"another field", loginguard.Options{}, "user=bob", 1},
		{"a function that finds none", loginguard.Options{Account: func(*http.Request) string { return "" }}, "user=bob", 1},
		{"an account", loginguard.Options{}, "username=bob", 0},
		{"no account is wanted", loginguard.Options{Fields: []string{}}, "user=bob", 0},
		{"a failure", loginguard.Options{Outcome: loginguard.AlwaysFailure}, "user=bob", 0},
	} {
		var warnings []string
		c.opts.Warn = func(m string) { warnings = append(warnings, m) }
		h := mustNew(t, memstore.New(nil), &c.opts).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for range 3 {
			mustAnswer(t, h, post("/login", urlencoded, c.body), http.StatusOK)
		}
		if len(warnings) != c.want || c.want > 0 && !strings.Contains(warnings[0], "Options.Fields") {
			t.Errorf("%s: warnings %q; want %d, with what to do", c.name, warnings, c.want)
		}
	}
}
