package forwardauth_test

import (
	"bytes"
	"fmt"
	"io"
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
				c.awaitRemaining(t, "held", "127.0.0.2", []int64{6, 2, 0}[i])
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

// HAProxy commits the cost and releases the slot at the end of the response, not at its
// header, and also if the client has disconnected.
func TestHAProxyCommitsAtEnd(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		if !strings.HasPrefix(file, "haproxy") {
			return
		}
		c := newChain(t, file)
		user, other := c.client(t, "127.0.0.2"), c.client(t, "127.0.0.2")
		user.begin("GET", "/slots/a", "X-Stream", "yes", "X-Work", "2.5")
		if got := other.do("GET", "/slots/a", ""); got.status != want["denied"] {
			t.Errorf("while a response is sent: got %d want %d", got.status, want["denied"])
		}
		c.release <- struct{}{}
		c.awaitRemaining(t, "slots", "127.0.0.2", 1)
		c.awaitRemaining(t, "held", "127.0.0.2", 7)

		another := c.client(t, "127.0.0.2")
		another.begin("GET", "/slots/a", "X-Stream", "yes", "X-Work", "1e999")
		another.conn.Close()
		c.release <- struct{}{} // HAProxy sees the disconnect when it sends
		c.awaitRemaining(t, "slots", "127.0.0.2", 1)
		c.awaitRemaining(t, "held", "127.0.0.2", 0)
	})
}

// A request that HAProxy has not forwarded costs nothing. The response has no field
// X-Cost, even if the application sends an error or nonsense.
func TestHAProxyCosts(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		if !strings.HasPrefix(file, "haproxy") {
			return
		}
		c := newChain(t, file)
		user, spent := c.client(t, "127.0.0.2"), int64(0)
		for _, x := range []struct {
			fields []string
			cost   int64
		}{
			{[]string{"X-Work", "0"}, 0},
			{[]string{"X-Work", "-3"}, 0},
			{[]string{"X-Work", "many"}, 1},
			{nil, 1},
			{[]string{"X-Status", "503"}, 1},
			{[]string{"X-Status", "503", "X-Work", "2"}, 2},
		} {
			r := user.do("GET", "/held/a", "", x.fields...)
			if spent += x.cost; !r.called {
				t.Errorf("%q: got %d, the application was not called", x.fields, r.status)
			}
			r.fields(t, "held", map[string]string{"X-Cost": ""})
			c.awaitRemaining(t, "held", "127.0.0.2", 10-spent)
		}
		c.closeApp()
		if r := user.do("GET", "/held/a", ""); r.status != http.StatusServiceUnavailable {
			t.Errorf("no application: got %d want 503", r.status)
		}
		c.awaitRemaining(t, "held", "127.0.0.2", 10-spent)
	})
}

// awaitRemaining waits until no hold of a key is open and it has so many units left.
func (c *chain) awaitRemaining(t *testing.T, policy, key string, want int64) {
	t.Helper()
	checks := []engine.Check{{Policy: policy, Key: key}}
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		var a engine.Answer
		if err := c.engine.Decide(t.Context(), headgate.Peek, checks, &a); err != nil {
			t.Fatal(err)
		}
		if a.Remaining == want {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%s: got %d remaining want %d", policy, a.Remaining, want)
		}
	}
}

// begin sends a request and reads the header of the response.
func (c *client) begin(method, uri string, fields ...string) {
	c.t.Helper()
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: shop.test\r\n", method, uri)
	for i := 0; i < len(fields); i += 2 {
		text += fields[i] + ": " + fields[i+1] + "\r\n"
	}
	if _, err := io.WriteString(c.conn, text+"\r\n"); err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.ReadResponse(c.read, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s %s: got %v, error %v", method, uri, resp, err)
	}
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
