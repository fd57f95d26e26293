package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

const originConfig = `policies:
  login: { limits: ["5/24h"], algorithm: sliding_log }
routes:
  - match: { path: "/**" }
    policies: [login]
`

// launchHTTP starts the service with originConfig and only the HTTP listener.
func launchHTTP(t *testing.T, addr string, flags ...string) *launched {
	t.Helper()
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(file, []byte(originConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return launch(t, 1, slices.Concat(only, []string{addr, "--config", file}, flags)...)
}

// sent is a request with any Host and any fields.
type sent struct {
	method, path, host, body string
	fields                   []string
}

// status sends the request over a connection of its own and returns the response's
// status and body.
func (s sent) status(t *testing.T, addr string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := []string{s.method + " " + s.path + " HTTP/1.1", "Host: " + s.host, "Connection: close", fmt.Sprintf("Content-Length: %d", len(s.body))}
	if _, err := io.WriteString(conn, strings.Join(append(head, s.fields...), "\r\n")+"\r\n\r\n"+s.body); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s %s: the response has the field %s; want no permission for other origins", s.method, s.path, name)
		}
	}
	return resp.StatusCode, string(text)
}

const (
	oneKey      = `{"policy":"login","key":"203.0.113.9"}`
	envoyLimit  = `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"requestsPerUnit":1,"unit":"DAY"}}]}`
	forwardPath = "/v1/forward-auth"
)

// spending are requests that spend, refund or reset units, or read how many are left.
var spending = []sent{
	{method: "POST", path: "/v1/check", body: oneKey},
	{method: "POST", path: "/v1/peek", body: oneKey},
	{method: "POST", path: "/v1/refund", body: oneKey},
	{method: "POST", path: "/v1/reset", body: oneKey},
	{method: "POST", path: "/json", body: envoyLimit},
}

// describedLogin are the fields by which a proxy describes a login of the client.
var describedLogin = []string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /login", "X-Forwarded-For: 203.0.113.9"}

// remaining returns the units that are left for the client.
func (p *launched) remaining(t *testing.T) string {
	t.Helper()
	_, body := sent{method: "POST", path: "/v1/peek", host: p.addrs["http"], body: oneKey}.status(t, p.addrs["http"])
	_, rest, _ := strings.Cut(body, `"remaining":`)
	left, _, _ := strings.Cut(rest, ",")
	return left
}

// A page of another origin cannot use the HTTP API through a browser, and neither can a
// page whose name was rebound to the loopback address.
func TestWebPagesCannotUseHTTPAPI(t *testing.T) {
	t.Parallel()
	p := launchHTTP(t, "127.0.0.1:0")
	addr := p.addrs["http"]
	_, port, _ := net.SplitHostPort(addr)
	for _, from := range []struct {
		name, host string
		fields     []string
		want       int
	}{
		{"another site", addr, []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example", "Content-Type: text/plain"}, 403},
		{"another port of this machine", addr, []string{"Sec-Fetch-Site: same-site", "Origin: http://127.0.0.1:3000"}, 403},
		{"another site, old browser", addr, []string{"Origin: http://evil.example"}, 403},
		{"a sandboxed page", addr, []string{"Origin: null"}, 403},
		{"a rebound name", "rebind.evil.example:" + port, []string{"Origin: http://rebind.evil.example:" + port}, 421},
		{"a rebound name through a forwarded port", "rebind.evil.example:9999", []string{"Sec-Fetch-Site: same-origin"}, 421},
		{"a name that looks like an address", "127.0.0.1.evil.example:" + port, nil, 421},
	} {
		for _, s := range spending {
			s.host, s.fields = from.host, from.fields
			if got, body := s.status(t, addr); got != from.want || strings.Contains(body, "remaining") {
				t.Errorf("%s: %s: got %d %s want %d", from.name, s.path, got, body, from.want)
			}
		}
	}
	for _, s := range []sent{
		{method: "GET", path: forwardPath + "/login", host: addr, fields: []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}},
		{method: "POST", path: forwardPath, host: addr, fields: []string{"Origin: https://evil.example", "Content-Type: text/plain"}},
		{method: "OPTIONS", path: forwardPath, host: addr, fields: []string{
			"Origin: https://evil.example", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: x-forwarded-method,x-forwarded-uri",
		}},
		{method: "GET", path: forwardPath, host: "rebind.evil.example:" + port, fields: describedLogin},
		{method: "GET", path: forwardPath + "/login", host: "REBIND.evil.example.:" + port, fields: describedLogin},
	} {
		if got, body := s.status(t, addr); got != 400 && got != 421 {
			t.Errorf("%s %s for %s: got %d %s want 400 or 421", s.method, s.path, s.host, got, body)
		}
	}
	if left := p.remaining(t); left != "5" {
		t.Errorf("got %s units left want all 5", left)
	}
	eventually(t, "both rejections are logged once", func() bool {
		return strings.Count(p.text(), `msg="request for untrusted host rejected"`) == 1 &&
			strings.Count(p.text(), `msg="cross-origin request rejected"`) == 1
	})
}

// Clients that are not browsers are not affected, and more names can be allowed.
func TestHostsOfHTTPAPI(t *testing.T) {
	t.Parallel()
	local, any4 := launchHTTP(t, "127.0.0.1:0"), launchHTTP(t, "0.0.0.0:0")
	named := launchHTTP(t, "127.0.0.1:0", "--http-allowed-hosts", "api.internal,other.internal")
	namedAny4, every := launchHTTP(t, "0.0.0.0:0", "--http-allowed-hosts", "api.internal"), launchHTTP(t, "127.0.0.1:0", "--http-allowed-hosts", "*")
	for _, c := range []struct {
		name    string
		p       *launched
		allowed []string
		refused []string
	}{
		{"loopback", local, []string{"127.0.0.1:8080", "localhost", "LOCALHOST:1", "app.localhost", "[::1]:8080", "10.1.2.3", ""}, []string{"headgate", "api.internal"}},
		{"loopback with names", named, []string{"127.0.0.1", "localhost:1", "api.internal", "Other.Internal.:8080"}, []string{"headgate", "www.api.internal"}},
		{"every address", any4, []string{"headgate:8080", "headgate.default.svc", "127.0.0.1"}, nil},
		{"every address with names", namedAny4, []string{"api.internal:8080", "10.1.2.3"}, []string{"headgate:8080"}},
		{"every name", every, []string{"headgate", "127.0.0.1"}, nil},
	} {
		_, port, _ := net.SplitHostPort(c.p.addrs["http"])
		for _, host := range slices.Concat(c.allowed, c.refused) {
			want := 200
			if slices.Contains(c.refused, host) {
				want = 421
			}
			s := sent{method: "POST", path: "/v1/peek", host: host, body: oneKey}
			if got, body := s.status(t, "127.0.0.1:"+port); got != want {
				t.Errorf("%s: Host %q: got %d %s want %d", c.name, host, got, body, want)
			}
		}
	}
}

// The proxies of docs/guides/proxies work unchanged: nginx sends the name of an
// upstream, and Caddy the Host, Origin and Sec-Fetch-Site of its client.
func TestProxiesForwardHostOfClient(t *testing.T) {
	t.Parallel()
	application := testserver.FreeAddr(t)
	ln, err := net.Listen("tcp", application)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
	for _, file := range []string{"nginx-closed.conf", "haproxy-closed.cfg", "Caddyfile-closed"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			p := launchHTTP(t, "127.0.0.1:0")
			addr := startProxy(t, file, p.addrs["http"], application)
			_, port, _ := net.SplitHostPort(addr)
			hosts := []string{"shop.example", "shop.example:" + port, "shop.example:8443", "127.0.0.1:" + port, "shop.example"}
			for n, host := range append(hosts, "shop.example") {
				want := 200
				if n == len(hosts) {
					want = 429
				}
				s := sent{method: "POST", path: "/login", host: host, fields: []string{"Origin: https://partner.example", "Sec-Fetch-Site: cross-site"}}
				if got, body := s.status(t, addr); got != want {
					t.Errorf("request %d, Host %q: got %d %s want %d", n+1, host, got, body, want)
				}
			}
		})
	}
}

// startProxy starts a proxy with a file of docs/guides/proxies and returns its address.
func startProxy(t *testing.T, file, headgate, application string) string {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../../docs/guides/proxies", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	addr := testserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	text := strings.NewReplacer(
		":8000", ":"+port, "127.0.0.1:8080", headgate, "127.0.0.1:9000", application, "50ms", "5s", "100ms", "5s", "abns@headgate", "abns@headgate"+port,
		"/etc/haproxy/", "",
	)
	switch {
	case strings.HasPrefix(file, "nginx"):
		testserver.Nginx(t, addr, text.Replace(read(file)))
	case strings.HasPrefix(file, "haproxy"):
		testserver.HAProxy(t, addr, text.Replace(read(file)), map[string]string{"haproxy.lua": text.Replace(read("haproxy.lua"))})
	default:
		testserver.Caddy(t, addr, text.Replace(read(file)))
	}
	return addr
}
