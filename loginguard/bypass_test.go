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

// Many handlers return without a response if the client has disconnected. net/http then
// reports status 200, so an attacker who disconnects would succeed with every guess.
func TestDisconnectIsNotSuccess(t *testing.T) {
	t.Parallel()
	success := func(status int, _ http.Header) loginguard.Outcome {
		if status < 400 {
			return loginguard.Success
		}
		return loginguard.Failure
	}
	for _, outcome := range []func(int, http.Header) loginguard.Outcome{nil, success} {
		h := &eventRecorder{}
		g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h, Outcome: outcome})
		for range 7 {
			ctx, disconnect := context.WithCancel(t.Context())
			serve(g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				disconnect()
				<-r.Context().Done() // as a database query does
			})), form("192.0.2.1", "bob", "guess").WithContext(ctx))
		}
		if got := h.kinds(); got[loginguard.KindUnknown] != 5 || got[loginguard.KindDenied]+got[loginguard.KindError] != 2 {
			t.Errorf("7 guesses of a client that disconnects: %v; want 5 charged and 2 denied", got)
		}
	}
}

// A GET request with an account in its URL marks no pair as known if its success is
// judged by status only.
func TestSafeMethodsMakeNoPairKnown(t *testing.T) {
	t.Parallel()
	h := &eventRecorder{}
	g := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h})
	page := g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	link := g.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { loginguard.Succeeded(r) }))
	send := func(h http.Handler, method string) {
		r := httptest.NewRequest(method, "/login?username=bob", nil)
		mustServe(t, h, r, http.StatusOK)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace} {
		for range 3 {
			send(page, method)
		}
	}
	send(link, http.MethodGet) // for example a link in a mail
	send(link, http.MethodGet)
	for n, e := range h.events {
		if e.Kind != loginguard.KindSucceeded || e.Known != (n == 13) {
			t.Errorf("event %d: %s, known %v; want successes, and a known pair only after Succeeded", n, e.Kind, e.Known)
		}
	}
}

// The guard does not see the response on a hijacked connection.
func TestHijackIsNotSuccess(t *testing.T) {
	t.Parallel()
	h := &eventRecorder{}
	done := make(chan struct{})
	protected := mustNew(t, memstore.New(nil), &loginguard.Options{Observer: h}).Protect(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack() // as most WebSocket libraries do
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
		t.Errorf("%s; want unknown", h.events[0].Kind)
	}
}

// Failed and Succeeded are reported to all guards of the request.
func TestNestedGuards(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	for _, c := range []struct {
		report func(*http.Request)
		want   loginguard.EventKind
	}{{loginguard.Failed, loginguard.KindFailed}, {loginguard.Succeeded, loginguard.KindSucceeded}} {
		outer, inner := &eventRecorder{}, &eventRecorder{}
		g := mustNew(t, store, &loginguard.Options{Observer: outer}).Protect(
			mustNew(t, store, &loginguard.Options{Name: "second", Observer: inner}).Protect(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					c.report(r)
					w.WriteHeader(http.StatusOK)
				})))
		mustServe(t, g, form("192.0.2.1", "bob", "guess"), http.StatusOK)
		if outer.events[0].Kind != c.want || inner.events[0].Kind != c.want {
			t.Errorf("outer %s, inner %s; want both %s", outer.events[0].Kind, inner.events[0].Kind, c.want)
		}
	}
}

// A success without an account means that the guard reads a different field from the
// handler.
func TestWarnsAboutSuccessWithoutAccount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts loginguard.Options
		body string
		want int
	}{
		{"another field", loginguard.Options{}, "user=bob", 1},
		{"a function without a result", loginguard.Options{Account: func(*http.Request) string { return "" }}, "user=bob", 1},
		{"an account", loginguard.Options{}, "username=bob", 0},
		{"no account fields", loginguard.Options{Fields: []string{}}, "user=bob", 0},
		{"a failure", loginguard.Options{Outcome: loginguard.AlwaysFailure}, "user=bob", 0},
	} {
		var warnings []string
		c.opts.Warn = func(m string) { warnings = append(warnings, m) }
		h := mustNew(t, memstore.New(nil), &c.opts).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for range 3 {
			mustServe(t, h, post("/login", urlencoded, c.body), http.StatusOK)
		}
		if len(warnings) != c.want || c.want > 0 && !strings.Contains(warnings[0], "Options.Fields") {
			t.Errorf("%s: warnings %q; want %d, with advice", c.name, warnings, c.want)
		}
	}
}
