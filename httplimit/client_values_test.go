package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/mutation"
)

// attacker is the address of a client that is over its limit. Requests with the field
// X-Polite have another limit, which is very high.
const attacker = "127.0.0.2"

// guarded is a server whose middleware denies every request of attacker.
type guarded struct {
	*site
	addr   string
	called atomic.Int64 // number of calls of the handler without X-Polite
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	isPolite := func(r *http.Request) bool { return r.Header.Get("X-Polite") != "" }
	header := httplimit.Header("X-API-Key")
	limit := newMiddleware(t, nil,
		httplimit.Charge{Policy: policy("all", "3/24h"), When: func(r *http.Request) bool { return !isPolite(r) }},
		httplimit.Charge{Policy: policy("key", "1000000000/1m"), Key: httplimit.First(header, httplimit.Address())},
		httplimit.Charge{Policy: policy("path", "1000000000/1m"), Key: httplimit.Join(httplimit.Method(), httplimit.Path(), header)},
	)
	g := &guarded{}
	g.site = listen(t, limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isPolite(r) {
			g.called.Add(1)
		}
	})))
	g.addr = g.Listener.Addr().String()
	for range 3 {
		if _, err := mutation.SendComplete(attacker, g.addr, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	g.called.Store(0)
	return g
}

// send sends a request of attacker with one of the functions of package mutation. The
// handler must not run.
func (g *guarded) send(text string, by func(local, addr, request string) ([]mutation.Response, error)) ([]mutation.Response, error) {
	all, err := by(attacker, g.addr, text)
	if g.called.Load() > 0 {
		err = errors.Join(err, fmt.Errorf("the handler was called; one of the last requests was %.2000q", text))
	}
	return all, err
}

func (g *guarded) sendPolitely() error {
	all, err := mutation.SendComplete("127.0.0.3", g.addr, "GET / HTTP/1.1\r\nHost: h\r\nX-Polite: yes\r\nConnection: close\r\n\r\n")
	if err == nil && (len(all) != 1 || all[0].Status != http.StatusOK) {
		err = fmt.Errorf("the well-behaved client: got %v want a 200", all)
	}
	return err
}

// TestClientInput: whatever a client over its limit sends, the handler does not run.
func TestClientInput(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	get := func(fields string) string {
		return "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + fields + "\r\n"
	}
	line := func(text string) string { return text + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" }
	pad := strings.Repeat("a", 60<<10)
	for kind, requests := range map[string]map[string]int{
		"long": {
			get("X-API-Key: " + pad + "\r\n"): 429, line("GET /" + pad): 429, line("GET /?" + pad): 429, line(pad + " /"): 429,
			get("X-API-Key: " + strings.Repeat(pad, 20) + "\r\n"): 431, get("Content-Length: 5\r\n\r\nhello"): 429,
		},
		"binary": {
			get("X-API-Key: caf\xe9\xff\r\n"): 429, line("GET /\xff%00"): 429, get("X-API-Key: \x00\r\n"): 400, line("G\xff /"): 400,
		},
		"many": {
			get(strings.Repeat("X-API-Key: a\r\n", 1000)): 429, line("GET " + strings.Repeat("/a", 10_000)): 429,
			get(strings.Repeat("Host: a\r\n", 3)): 400,
		},
		"malformed": {
			line("OPTIONS /*"): 429, line("get /"): 429, get("Content-Length: -1\r\n"): 400, get("Transfer-Encoding: x\r\n"): 501, line("GET a"): 400,
			"GET / HTTP/1.0\r\n\r\n": 429, get("Expect: 100-continue\r\nContent-Length: 5\r\n"): 429,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			for text, want := range requests {
				if all, err := g.send(text, mutation.SendComplete); err != nil || len(all) != 1 || all[0].Status != want {
					t.Errorf("%.200q: got %.200v, error %v want %d", text, all, err, want)
				}
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		conn, err := g.Client().Transport.(*http.Transport).DialContext(t.Context(), "tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost"); err != nil {
			t.Fatal(err)
		}
		if err := g.sendPolitely(); err != nil {
			t.Error(err)
		}
		if all, err := g.send(get(""), mutation.SendComplete); err != nil || len(all) != 1 || all[0].Status != 429 {
			t.Errorf("got %v, error %v want 429", all, err)
		}
	})
}

// TestMutatedRequests: as TestClientInput, with mutated requests.
func TestMutatedRequests(t *testing.T) {
	g := newGuarded(t)
	(&mutation.Attack{
		Sender: func() func(*rand.Rand) error {
			return func(rng *rand.Rand) error {
				_, err := g.send(mutation.HTTPRequest(rng, "POST", "/login", "name=a", "X-API-Key", "acme", "Cookie", "a=b"), mutation.Send)
				return err
			}
		},
		Polite: g.sendPolitely,
	}).Run(t)
}
