package forwardauth_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/internal/mutation"
	"github.com/headgate/headgate/memstore"
)

// TestInputLimitsDoNotApply: max_key_bytes and max_checks bound what clients of other
// APIs send. The service composes the keys and the checks here, so a long header field,
// or two policies on one route, are no error.
func TestInputLimitsDoNotApply(t *testing.T) {
	t.Parallel()
	opts := decidedBy(proxied.TrustedProxies)
	opts.MaxKeyBytes, opts.MaxChecks = 5, 1
	e := must(engine.New(memstore.New(nil), opts))
	h := must(forwardauth.New(e, &proxied.Options))
	for _, key := range []string{"key of 15 bytes", strings.Repeat("k", 8<<10), "caf\xe9\x00\xff"} {
		for i, want := range []int{200, 200, 429} {
			resp := ask(h, forwardauth.Path, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/api/x", "X-Forwarded-For", "203.0.113.9", "X-API-Key", key)
			if resp.StatusCode != want {
				t.Errorf("%.20q, request %d: got %d want %d", key, i+1, resp.StatusCode, want)
			}
		}
	}
}

// The clients of the following tests. The policy login applies to every request by
// address: attacker is over its limit, and the limit of politeClient is very high.
const (
	attacker     = "127.0.0.2"
	politeClient = "127.0.0.3"
)

// newGuard returns a handler that denies every request of attacker.
func newGuard(t *testing.T) http.Handler {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	e := must(engine.New(store, &engine.Options{
		Policies: policies,
		PolicyOptions: map[string]engine.PolicyOptions{"login": {
			Overrides: map[string][]headgate.Limit{politeClient: {headgate.MustParseLimit("1000000000/1m")}},
		}},
		Routes: routing.NewTable([]routing.Route{{Policies: []string{"login"}}}, nil),
	}))
	h := must(forwardauth.New(e, &forwardauth.Options{Local: true}))
	for range 4 {
		r := request("127.0.0.1:1", forwardauth.Path, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", attacker)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	return h
}

// clientInput returns requests that a client of a proxy may send, by kind.
func clientInput() map[string]map[string]string {
	get := func(fields ...string) string {
		return "GET /login HTTP/1.1\r\nHost: shop.test\r\n" + strings.Join(append(fields, "Connection: close\r\n\r\n"), "\r\n")
	}
	target := func(line string) string { return line + " HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n" }
	all := map[string]map[string]string{"long": {}, "binary": {}, "many": {}, "malformed": {}}
	for _, n := range []int{1023, 1025, 4 << 10, 7 << 10, 9 << 10, 12 << 10, 17 << 10, 30 << 10, 70 << 10} {
		pad := strings.Repeat("a", n)
		all["long"][fmt.Sprint("path ", n)] = target("GET /" + pad)
		all["long"][fmt.Sprint("query ", n)] = target("GET /login?" + pad)
		all["long"][fmt.Sprint("key ", n)] = get("X-API-Key: " + pad)
		all["long"][fmt.Sprint("other field ", n)] = get("X-Other: " + pad)
		all["long"][fmt.Sprint("name of a field ", n)] = get(pad + ": a")
		all["long"][fmt.Sprint("method ", n)] = target(pad + " /login")
		all["long"][fmt.Sprint("host ", n)] = strings.Replace(get(), "shop.test", pad, 1)
	}
	for i := range 256 {
		b := string([]byte{byte(i)})
		all["binary"][fmt.Sprintf("key %02x", i)] = get("X-API-Key: a" + b + "b")
		all["binary"][fmt.Sprintf("path %02x", i)] = target("GET /login" + b + "x")
		all["binary"][fmt.Sprintf("host %02x", i)] = strings.Replace(get(), "shop.test", "shop"+b+"test", 1)
		all["binary"][fmt.Sprintf("method %02x", i)] = target("G" + b + "T /login")
	}
	for _, n := range []int{2, 50, 99, 101, 300, 2000} {
		for _, name := range []string{
			"X-API-Key", "X-Many", "X-Forwarded-For", "X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Host", "X-Original-URI",
			"X-Original-Method", "X-Real-IP", "Connection", "Host", "Cookie",
		} {
			all["many"][fmt.Sprint(n, " of ", name)] = get(strings.TrimSuffix(strings.Repeat(name+": a\r\n", n), "\r\n"))
		}
		all["many"][fmt.Sprint(n, " segments")] = target("GET " + strings.Repeat("/a", n))
		all["many"][fmt.Sprint(n, " parameters")] = target("GET /login?" + strings.Repeat("deny=503&", n))
	}
	for i, line := range []string{
		"OPTIONS *", "CONNECT shop.test:80", "GET http://shop.test/login", "GET login", "GET //", "GET /../..", "GET /%zz", "GET /%00", "GET ://",
		"GET http://[::1", "get /login", "PRI *", "GET /login?deny=200", "GET /#", "GET", "GET  /login", "POST /login", "HEAD /login", "TRACE /login",
	} {
		all["malformed"][fmt.Sprint("line ", i)] = target(line)
	}
	for i, field := range []string{
		"Content-Length: -1", "Content-Length: 5\r\nContent-Length: 6", "Transfer-Encoding: chunked\r\nContent-Length: 5", "Transfer-Encoding: x",
		"Host: a", "Expect: 100-continue", "Expect: x", "Upgrade: websocket\r\nConnection: upgrade", "Connection: X-Forwarded-For, X-Forwarded-Uri",
		"Connection: close, X-Forwarded-Method", "TE: trailers", "X-Original-URI: /free", "X-Forwarded-Uri: /free", "X-Forwarded-For: " + politeClient,
		"X-Forwarded-Method:", "X-Real-IP: " + politeClient, "Forwarded: for=" + politeClient, ": x", "X", " X: a", "X-API-Key:\tA\tb", "X-RateLimit-Decision: allow",
	} {
		all["malformed"][fmt.Sprint("field ", i)] = get(field)
	}
	all["malformed"]["HTTP/1.0"] = "GET /login HTTP/1.0\r\n\r\n"
	all["malformed"]["HTTP/0.9"] = "GET /login\r\n"
	all["malformed"]["HTTP/2"] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	all["malformed"]["no host"] = "GET /login HTTP/1.1\r\nConnection: close\r\n\r\n"
	return all
}

// TestProxyClientInput: a client over its limit does not reach the application,
// whatever it sends to the proxy, also if the proxy fails open, and if it accepts longer
// headers than Headgate. Another client is served meanwhile.
func TestProxyClientInput(t *testing.T) {
	each(t, func(t *testing.T, file string, _ map[string]int) {
		c := chainTo(t, file, read(t, file), newGuard(t), 20*time.Second)
		larger := c
		if text := withLargerBuffers(read(t, file)); text != read(t, file) {
			larger = chainTo(t, file, text, newGuard(t), 20*time.Second)
		}
		for kind, requests := range clientInput() {
			t.Run(kind, func(t *testing.T) {
				c.requireDenied(t, requests)
				if kind == "long" || kind == "many" {
					larger.requireDenied(t, requests)
				}
			})
		}
		t.Run("slow", func(t *testing.T) { c.requireSlowRequestDenied(t) })
	})
}

// requireDenied sends requests of attacker, none of which may reach the application, and
// a request of the well-behaved client.
func (c *chain) requireDenied(t *testing.T, requests map[string]string) {
	t.Helper()
	for name, text := range requests {
		if _, err := mutation.Send(attacker, c.proxy.Addr(), text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.impolite.Load() > 0 {
			t.Fatalf("%s: the application was called", name)
		}
	}
	if err := c.sendPolitely(); err != nil {
		t.Error(err)
	}
}

// requireSlowRequestDenied sends a request in two parts, and a request of another client
// between them.
func (c *chain) requireSlowRequestDenied(t *testing.T) {
	t.Helper()
	slow := c.client(t, attacker)
	for _, part := range []string{"POST /login HTTP/1.1\r\nHost: shop.test\r\nContent-", "Length: 1\r\nConnection: close\r\n\r\n", "x"} {
		if _, err := io.WriteString(slow.conn, part); err != nil {
			t.Fatal(err)
		}
		if err := c.sendPolitely(); err != nil {
			t.Error(err)
		}
	}
	resp, err := http.ReadResponse(slow.read, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests || c.impolite.Load() > 0 {
		t.Errorf("got %d want 429, and that the application is not called", resp.StatusCode)
	}
}

// sendPolitely sends a request of the well-behaved client, which must reach the
// application.
func (c *chain) sendPolitely() error {
	all, err := mutation.SendComplete(politeClient, c.proxy.Addr(), "GET /login HTTP/1.1\r\nHost: shop.test\r\nX-Polite: yes\r\nConnection: close\r\n\r\n")
	if err == nil && (len(all) != 1 || all[0].Status != http.StatusOK) {
		err = fmt.Errorf("the well-behaved client: got %v want a 200", all)
	}
	return err
}

// TestMutatedProxyRequests: as TestProxyClientInput, with mutated requests.
func TestMutatedProxyRequests(t *testing.T) {
	files := []string{"nginx-open.conf", "haproxy-open.cfg", "Caddyfile-open", "nginx-closed.conf", "haproxy-closed.cfg", "Caddyfile-closed"}
	if *traefik != "" {
		files = append(files, "traefik-open.yaml", "traefik-closed.yaml")
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			c := chainTo(t, file, read(t, file), newGuard(t), 20*time.Second)
			(&mutation.Attack{
				Share: len(files),
				Sender: func() func(*rand.Rand) error {
					return func(rng *rand.Rand) error {
						text := mutation.HTTPRequest(rng, "POST", "/login", "name=a", "X-API-Key", "acme", "Cookie", "a=b")
						_, err := mutation.Send(attacker, c.proxy.Addr(), text)
						if c.impolite.Load() > 0 {
							err = errors.Join(err, fmt.Errorf("the application was called; one of the last requests was %.2000q", text))
						}
						return err
					}
				},
				Polite: c.sendPolitely,
			}).Run(t)
		})
	}
}

// serveGuard serves a guard as the service does, on a connection from a proxy.
func serveGuard(t *testing.T) (addr string) {
	t.Helper()
	service := httptest.NewUnstartedServer(newGuard(t))
	service.Config.MaxHeaderBytes = 16 << 10
	service.Start()
	t.Cleanup(service.Close)
	return service.Listener.Addr().String()
}

// described returns what a proxy such as Traefik sends for a request of a client: the
// description, and the other fields of the client.
func described(client, method, uri string, fields ...string) string {
	text := "GET " + forwardauth.Path + " HTTP/1.1\r\nHost: headgate\r\nX-Forwarded-Method: " + method + "\r\nX-Forwarded-Uri: " + uri +
		"\r\nX-Forwarded-Host: shop.test\r\nX-Forwarded-For: " + client + "\r\nConnection: close\r\n"
	for _, f := range fields {
		text += f + "\r\n"
	}
	return text + "\r\n"
}

// TestClientInput: what a proxy sends on behalf of a client that is over its limit never
// gets a status that a proxy treats as allowed.
func TestClientInput(t *testing.T) {
	t.Parallel()
	addr := serveGuard(t)
	pad := strings.Repeat("a", 7<<10)
	for kind, requests := range map[string]map[string]int{
		"long": {
			described(attacker, "GET", "/"+pad):                        429,
			described(attacker, "GET", "/login?"+pad):                  429,
			described(attacker, "GET", "/"+pad+pad):                    414,
			described(attacker, "GET", "/", "X-API-Key: "+pad):         429,
			described(attacker, "GET", "/", "X-Other: "+pad+pad+pad):   431,
			described(attacker, strings.Repeat("M", 33), "/"):          400,
			described(attacker, "GET", "/", "X-Forwarded-Proto: "+pad): 429,
		},
		"binary": {
			described(attacker, "GET", "/\xff\x80"):                   429,
			described(attacker, "GET", "/", "X-API-Key: caf\xe9\xff"): 429,
			described(attacker, "GET", "/", "X-API-Key: \x00"):        400,
			described(attacker, "G\xffT", "/"):                        400,
		},
		"many": {
			described(attacker, "GET", "/", strings.Repeat("X-API-Key: a\r\n", 500)+"X: y"):       429,
			described(attacker, "GET", "/", strings.Repeat("X-Forwarded-For: a\r\n", 100)+"X: y"): 400,
			described(attacker, "GET", "/", "X-Forwarded-Uri: /free"):                             400,
			described(attacker, "GET", "/", "X-Forwarded-Method: GET"):                            400,
			described(attacker, "GET", "/", strings.Repeat("Cookie: a\r\n", 2_000)+"X: y"):        431,
			described(attacker, "GET", strings.Repeat("/%2e%2e", 1000)):                           429,
		},
		"malformed": {
			described(attacker, "GET", "*"):                          429,
			described(attacker, "GET", "://"):                        429,
			described(attacker, "GET", "/", "X-Original-URI: /free"): 400,
			described(attacker, "", "/"):                             400,
			described(attacker, "GET", "/", "X-Forwarded-Host: a,b"): 400,
			described("nonsense", "GET", "/"):                        400,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			for text, want := range requests {
				all, err := mutation.SendComplete("", addr, text)
				if err != nil || len(all) != 1 || all[0].Status != want {
					t.Errorf("%.300q: got %.200v, error %v want %d", text, all, err, want)
				}
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET "+forwardauth.Path+" HTTP/1.1\r\nX-Forwarded-"); err != nil {
			t.Fatal(err)
		}
		for client, want := range map[string]int{attacker: 429, politeClient: 200} {
			if all, err := mutation.SendComplete("", addr, described(client, "GET", "/")); err != nil || len(all) != 1 || all[0].Status != want {
				t.Errorf("%s: got %v, error %v want %d", client, all, err, want)
			}
		}
	})
}

// TestMutatedDescriptions: no mutated description gets a 2xx.
func TestMutatedDescriptions(t *testing.T) {
	addr := serveGuard(t)
	escape := strings.NewReplacer("\r", "", "\n", "")
	(&mutation.Attack{
		Sender: func() func(*rand.Rand) error {
			return func(rng *rand.Rand) error {
				var fields []string
				for range rng.IntN(4) {
					name := []string{"X-API-Key", "Cookie", "X-Forwarded-Proto", "X-Original-URI", "X-Real-IP", "Forwarded", "Connection"}[rng.IntN(7)]
					fields = append(fields, name+": "+escape.Replace(mutation.Value(rng, "acme", "X-Forwarded-For", "keep-alive")))
				}
				method, uri := "POST", escape.Replace(mutation.Value(rng, "/login", "/login?a=b", "http://shop.test/login", "/%2e%2e/login"))
				if rng.IntN(4) == 0 {
					method = escape.Replace(mutation.Value(rng, "GET", "post"))
				}
				text := described(attacker, method, uri, fields...)
				all, err := mutation.Send("", addr, text)
				for _, r := range all {
					if r.Status < 400 || r.Status >= 500 && r.Status != 501 && r.Status != 505 {
						return fmt.Errorf("%.2000q: got %v", text, r)
					}
				}
				return err
			}
		},
		Polite: func() error {
			all, err := mutation.SendComplete("", addr, described(politeClient, "POST", "/login"))
			if err == nil && (len(all) != 1 || all[0].Status != http.StatusOK) {
				err = fmt.Errorf("got %v want a 200", all)
			}
			return err
		},
	}).Run(t)
}
