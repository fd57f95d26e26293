package forwardauth_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/memstore"
)

// get returns the fields that describe a request for a path.
func get(path string) []string {
	return []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", path, "X-Forwarded-For", "203.0.113.9"}
}

// On a route with a hold, the response has a token with which the actual cost is
// committed.
func TestHold(t *testing.T) {
	t.Parallel()
	h, e, _ := newEngineHandler(t, proxied)
	for i, left := range []int{9, 5, 1} {
		r := ask(h, forwardauth.Path, get("/held/a")...)
		requireDecision(t, "held", r, 200, "allow")
		if got := r.Header.Get("RateLimit"); !strings.Contains(got, fmt.Sprintf("r=%d;", left)) {
			t.Errorf("request %d: RateLimit: got %s want r=%d", i+1, got, left)
		}
		hold, err := engine.ParseHold(r.Header.Get("X-RateLimit-Hold"), 32)
		if err != nil || len(hold.Checks) != 2 {
			t.Fatalf("got %+v, error %v want a hold with two checks", hold, err)
		}
		var a engine.Answer
		if err := e.ActiveConfig().Commit(t.Context(), headgate.StoreClock, &hold, []int64{4, 1}, &a); err != nil {
			t.Fatal(err)
		}
	}
	r := ask(h, forwardauth.Path, get("/held/a")...)
	requireDecision(t, "the key is overspent", r, 429, "deny")
	if got := r.Header.Get("X-RateLimit-Hold"); got != "" {
		t.Errorf("denied: got the hold %q", got)
	}
	for _, path := range []string{"/plain/a", "/health", "/nothing"} {
		r := ask(h, forwardauth.Path, get(path)...)
		if got := r.Header.Get("X-RateLimit-Hold"); r.StatusCode != 200 || got != "" {
			t.Errorf("%s: got %d with the hold %q want 200 without one", path, r.StatusCode, got)
		}
	}
}

// With HAProxy, the proxy commits the cost that the application returns. With the others,
// the application gets the hold and commits it itself. Clients cannot forge it.
func TestProxiesAndHolds(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		user := c.client(t, "127.0.0.2")
		for _, path := range []string{"/free", "/plain/a"} {
			user.do("GET", path, "", "X-RateLimit-Hold", "forged").expect(t, path, want["allowed"])
			if got := c.last.Load().Header.Get("X-RateLimit-Hold"); got != "" {
				t.Errorf("%s: the application got the hold %q", path, got)
			}
		}
		for i := range 3 {
			r := user.do("GET", "/held/a", "", "X-RateLimit-Hold", "forged", "X-Work", "4")
			r.expect(t, fmt.Sprintf("request %d", i+1), want["allowed"])
			r.fields(t, "held", map[string]string{"X-RateLimit-Hold": ""})
			if strings.HasPrefix(file, "haproxy") {
				r.fields(t, "held", map[string]string{"X-Cost": ""})
			} else {
				c.commit(t, c.last.Load().Header.Get("X-RateLimit-Hold"), 4)
			}
		}
		if got := user.do("GET", "/held/a", ""); got.status != want["denied"] {
			t.Errorf("after 3 requests of cost 4 under 10: got %d want %d", got.status, want["denied"])
		}
		c.client(t, "127.0.0.3").do("GET", "/held/a", "").expect(t, "another client", want["allowed"])
	})
}

// commit commits a hold, as an application does.
func (c *chain) commit(t *testing.T, token string, cost int) {
	t.Helper()
	body := fmt.Sprintf(`{"hold":"%s","actual":%d}`, token, cost)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.wire.Addr()+"/v1/commit", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("commit of %q: got %d want 200", token, resp.StatusCode)
	}
}

// A key with the maximum number of open holds is still limited: further requests are
// charged without a hold. Slots cannot be.
func TestTooManyHolds(t *testing.T) {
	t.Parallel()
	path, err := routing.ParsePath("/**")
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	policy := headgate.MustPolicy("3/24h")
	policy.Holds.MaxOpen = 1
	e, err := engine.New(store, &engine.Options{
		Policies:       map[string]headgate.Policy{"p": policy},
		Routes:         routing.NewTable([]routing.Route{{Path: path, Policies: []string{"p"}, Hold: time.Hour}}, nil),
		TrustedProxies: proxied.TrustedProxies,
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := forwardauth.New(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"200 allow true", "200 allow false", "200 allow false", "429 deny false"} {
		r := ask(h, forwardauth.Path, get("/a")...)
		got := fmt.Sprintf("%d %s %v", r.StatusCode, r.Header.Get("X-RateLimit-Decision"), r.Header.Get("X-RateLimit-Hold") != "")
		if got != want {
			t.Errorf("request %d: got %s want %s", i+1, got, want)
		}
	}
}
