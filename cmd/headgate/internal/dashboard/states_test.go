package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
	"github.com/headgate/headgate/internal/testserver"
)

const tokens = `
admin:
  tokens:
    - {name: ana, token: write-token-of-the-test, scopes: [read, write]}
    - {name: ben, token: read-token-of-the-test, scopes: [read]}
` + policies

// failing forwards requests to the service until it is set to fail.
type failing struct {
	down, slow atomic.Bool
	forbidden  atomic.Bool
	release    chan struct{}
}

// through puts a server that can fail between the page and the service.
func through(t testing.TB, s *running) *failing {
	t.Helper()
	target, err := url.Parse(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{release: make(chan struct{})}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case f.down.Load():
			panic(http.ErrAbortHandler) // closes the connection
		case f.forbidden.Load() && r.URL.Path != "/ui/":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"title":"Forbidden","status":403,"detail":"the token lacks the scope read"}`))
			return
		case f.slow.Load():
			<-f.release
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.admin = server.URL
	return f
}

// TestConnection: the page shows that the service does not respond or is slow, and
// recovers.
func TestConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts a browser")
	}
	t.Parallel()
	s := start(t, policies)
	f := through(t, s)
	s.check(1, "api", "acme")
	v := open(t, s, desktop)
	f.down.Store(true)
	v.until("document.documentElement.dataset.link === 'lost'")
	v.shows("#banner", "The service does not respond.")
	v.shows("#link", "connection lost, retrying")
	f.down.Store(false)
	v.until("document.documentElement.dataset.link === 'live'")
	v.until("document.getElementById('banner').hidden")
	f.slow.Store(true)
	v.until("document.documentElement.dataset.link === 'slow'")
	v.shows("#link", "slow")
	f.slow.Store(false)
	close(f.release)
	v.until("document.documentElement.dataset.link === 'live'")
	v.mustBeQuiet("net::ERR_EMPTY_RESPONSE", "net::ERR_CONNECTION")
}

// TestTokens: the page asks for a token, keeps it in the tab, and hides changes from a
// token that may not make them.
func TestTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts a browser")
	}
	t.Parallel()
	s := start(t, tokens)
	s.check(1, "api", "acme")
	b := chromium.Start(t, desktop)
	v := visitor{b, t, s}
	v.navigate("")
	v.until("!document.getElementById('access').hidden && document.getElementById('content').hidden")
	s.token = "read-token-of-the-test"
	v.signIn("wrong")
	v.shows("#access-problem", "The token is not valid")
	v.signIn(s.token)
	v.until("document.documentElement.dataset.link === 'live'")
	v.shows("#read-only", "read-only")
	v.until("!document.getElementById('new-override').checkVisibility()")
	v.load("#key=acme&key-policy=api")
	v.shows("[data-policy=api] .left", "left")
	v.until("!document.querySelector('[data-policy=api] .actions').checkVisibility()")
	v.click("#forget")
	v.until("!document.getElementById('access').hidden && sessionStorage.length === 0")
	s.token = "write-token-of-the-test"
	v.signIn(s.token)
	v.until("document.documentElement.dataset.link === 'live'")
	v.until("document.getElementById('read-only').hidden")
	v.click("[data-policy=api] .actions button:nth-child(1)")
	v.click("#dialog-ok")
	v.done("Reset: ")
	v.shows("#audit-table", "ana")
	v.until("document.cookie === '' && localStorage.length === 0")
	v.mustBeQuiet("401 (Unauthorized)")
}

// TestForbidden: the page shows why the service refuses.
func TestForbidden(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts a browser")
	}
	t.Parallel()
	s := start(t, policies)
	f := through(t, s)
	v := open(t, s, desktop)
	f.forbidden.Store(true)
	v.shows("#banner", "the token lacks the scope read")
	f.forbidden.Store(false)
	v.until("document.getElementById('banner').hidden")
	v.mustBeQuiet("403 (Forbidden)")
}

// TestStoreUnavailable: the page shows an outage of the store.
func TestStoreUnavailable(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts a browser and a server")
	}
	t.Parallel()
	redis := testserver.Redis(t)
	s := start(t, "store: redis://"+redis.Addr()+"\n"+policies)
	v := open(t, s, desktop)
	v.shows("#store-name", "redis")
	redis.Kill()
	v.eventually("an outage", func() bool {
		return s.post(s.http+"/v1/check", map[string]any{"policy": "login", "key": "a"}, nil) == http.StatusServiceUnavailable
	})
	v.until("document.getElementById('store-figure').dataset.state === 'bad'")
	v.shows("#store-check", "unavailable")
	v.shows("#outages", "unavailable")
	v.until(column+" !== '0'", "login", 6)
}

// signIn enters a token.
func (v visitor) signIn(token string) {
	v.t.Helper()
	v.put("#token", token)
	v.click("#access-form [type=submit]")
}
