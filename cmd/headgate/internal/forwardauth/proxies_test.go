package forwardauth_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/internal/testserver"
)

const folder = "../../../../docs/guides/proxies"

var traefik = flag.String("traefik", "", "also test the files for Traefik, with this binary")

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// expectations returns the table in docs/guides/proxies/README.md: statuses by file and
// event.
func expectations(t *testing.T) map[string]map[string]int {
	t.Helper()
	var heads []string
	found := make(map[string]map[string]int)
	for line := range strings.Lines(read(t, "README.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == "file":
			heads = cells
		case heads != nil && len(cells) == len(heads) && cells[0] != "---":
			row := make(map[string]int)
			for i, cell := range cells[1:] {
				status, err := strconv.Atoi(cell)
				if err != nil {
					t.Fatalf("README.md: %q in the row of %s is not a status", cell, cells[0])
				}
				row[heads[i+1]] = status
			}
			found[cells[0]] = row
		case heads != nil && len(cells) != len(heads):
			return found
		}
	}
	return found
}

// askTimeout is how long proxies wait for Headgate in the tests: a busy machine may
// exceed 100 ms.
const askTimeout = time.Second

// start runs a proxy with a configuration of the folder, with the addresses and timeouts
// of the test.
func start(t *testing.T, file, text, headgate, application string, timeout time.Duration) *testserver.Gateway {
	t.Helper()
	addr := testserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	name, _, _ := strings.Cut(file, "-")
	const between = "\n# the next file\n"
	switch name {
	case "traefik":
		text += between + read(t, "traefik.yaml")
	case "haproxy":
		text += between + read(t, "haproxy.lua")
	}
	for _, replaced := range [][2]string{
		{":8000", ":" + port},
		{"127.0.0.1:8080", headgate},
		{"127.0.0.1:9000", application},
		{"50ms", "1s"},
		{"100ms", fmt.Sprint(timeout.Milliseconds(), "ms")},
	} {
		if !strings.Contains(text, replaced[0]) {
			t.Fatalf("%s does not contain %s", file, replaced[0])
		}
		text = strings.ReplaceAll(text, replaced[0], replaced[1])
	}
	text, second, _ := strings.Cut(strings.NewReplacer(
		"abns@headgate", "abns@headgate"+port, // shared by the whole machine
		"127.0.0.1:8001", testserver.FreeAddr(t),
		"/etc/haproxy/", "", "/etc/traefik/", "", "/var/log/nginx/access.log", "/dev/stderr",
	).Replace(text), between)
	switch name {
	case "nginx":
		return testserver.Nginx(t, addr, text)
	case "Caddyfile":
		return testserver.Caddy(t, addr, text)
	case "traefik":
		g := testserver.Traefik(t, addr, *traefik, second, map[string]string{"dynamic.yaml": text})
		awaitRoutes(t, addr)
		return g
	}
	return testserver.HAProxy(t, addr, text, map[string]string{"haproxy.lua": second})
}

// awaitRoutes waits until Traefik has loaded its routes, which it does while it listens
// already. It sends a request that is too long for Headgate, so the application is not
// called.
func awaitRoutes(t *testing.T, addr string) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/"+strings.Repeat("a", 9<<10), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusRequestURITooLong {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("Traefik does not forward requests to Headgate: got %d want 414", resp.StatusCode)
		}
	}
}

// chain is a proxy in front of an application, and the Headgate that the proxy asks.
type chain struct {
	file       string // of the proxy
	proxy      *testserver.Gateway
	wire       *testserver.FaultProxy // between the proxy and Headgate
	closeStore func() error           // makes the store unavailable
	closeApp   func()                 // makes the application unavailable
	called     atomic.Int64           // number of calls of the application
	impolite   atomic.Int64           // number of these calls without the field X-Polite
	last       atomic.Pointer[http.Request]
	engine     *engine.Engine
	release    chan struct{} // a request with the field X-Stream ends after a value
}

func newChain(t *testing.T, file string) *chain {
	t.Helper()
	return chainOf(t, file, read(t, file))
}

func chainOf(t *testing.T, file, text string) *chain {
	t.Helper()
	h, e, store := newEngineHandler(t, &options{Options: forwardauth.Options{Local: true}})
	api := httpapi.New(e, &httpapi.Options{Mounted: map[string]http.Handler{forwardauth.Path: h}})
	c := chainTo(t, file, text, api, askTimeout)
	c.closeStore, c.engine = store.Close, e
	return c
}

// chainTo returns a chain whose proxy waits for h for the given time.
func chainTo(t *testing.T, file, text string, h http.Handler, timeout time.Duration) *chain {
	t.Helper()
	c := &chain{file: file, release: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("/v1/", h)
	service := httptest.NewUnstartedServer(mux)
	service.Config.MaxHeaderBytes = 16 << 10 // as headgate serve has it
	service.Start()
	t.Cleanup(service.Close)
	c.wire = testserver.Proxy(t, service.Listener.Addr().String())
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.called.Add(1); r.Header.Get("X-Polite") == "" {
			c.impolite.Add(1)
		}
		c.last.Store(r)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Application", "yes")
		if cost := r.Header.Get("X-Work"); cost != "" {
			w.Header().Set("X-Cost", cost)
		}
		if status, err := strconv.Atoi(r.Header.Get("X-Status")); err == nil {
			w.WriteHeader(status)
		}
		if r.Header.Get("X-Stream") != "" {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-c.release:
			case <-r.Context().Done():
			}
		}
		fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
	}))
	t.Cleanup(application.Close)
	c.closeApp = application.Close
	c.proxy = start(t, file, text, c.wire.Addr(), application.Listener.Addr().String(), timeout)
	return c
}

// client is a client with its own address and connection.
type client struct {
	t     *testing.T
	chain *chain
	addr  string
	conn  net.Conn
	read  *bufio.Reader
}

func (c *chain) client(t *testing.T, addr string) *client {
	t.Helper()
	one := &client{t: t, chain: c, addr: addr}
	one.dial()
	return one
}

func (c *client) dial() {
	c.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.addr)}}
	conn, err := dialer.DialContext(c.t.Context(), "tcp", c.chain.proxy.Addr())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	c.conn, c.read = conn, bufio.NewReader(conn)
}

type reply struct {
	status int
	header http.Header
	body   string
	called bool // the application was
}

// do sends a request as it is written here, and reads the answer.
func (c *client) do(method, uri, body string, fields ...string) reply {
	c.t.Helper()
	before := c.chain.called.Load()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: shop.test\r\nContent-Length: %d\r\n", method, uri, len(body))
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&text, "%s: %s\r\n", fields[i], fields[i+1])
	}
	if _, err := io.WriteString(c.conn, text.String()+"\r\n"+body); err != nil {
		c.t.Fatalf("%s %.40s: %v", method, uri, err)
	}
	resp, err := http.ReadResponse(c.read, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("%s %.40s: %v", method, uri, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s %.40s: %v", method, uri, err)
	}
	if resp.Close {
		c.dial()
	}
	return reply{resp.StatusCode, resp.Header, string(got), c.chain.called.Load() > before}
}

// expect checks the status, and that the application was called only if the status is
// 200.
func (r reply) expect(t *testing.T, what string, status int) {
	t.Helper()
	if r.status != status || r.called != (status == http.StatusOK) {
		t.Errorf("%s: got %d, the application was called: %t; want %d, %t", what, r.status, r.called, status, status == http.StatusOK)
	}
}

func (r reply) fields(t *testing.T, what string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := strings.Join(r.header.Values(name), "|"); got != value {
			t.Errorf("%s: %s: got %q want %q", what, name, got, value)
		}
	}
}

// each runs a test for every file, in parallel.
func each(t *testing.T, run func(t *testing.T, file string, want map[string]int)) {
	t.Parallel()
	files := expectations(t)
	if len(files) != 8 {
		t.Fatalf("README.md lists %d files, want 8", len(files))
	}
	for file, want := range files {
		if strings.HasPrefix(file, "traefik") && *traefik == "" {
			continue // make test-long builds it
		}
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			run(t, file, want)
		})
	}
}

func TestProxyResponses(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		user, another := c.client(t, "127.0.0.2"), c.client(t, "127.0.0.3")

		r := user.do("GET", "/free?x=1", "")
		r.expect(t, "a request under no policy", want["allowed"])
		r.fields(t, "under no policy", map[string]string{
			"RateLimit": "", "RateLimit-Policy": "", "Retry-After": "", "X-Application": "yes",
		})
		for left := 2; left >= 0; left-- {
			r = user.do("POST", "/login", "name=a")
			r.expect(t, "a login", want["allowed"])
			fields := map[string]string{
				"RateLimit": `"login";r=` + strconv.Itoa(left) + `;t=86400`, "RateLimit-Policy": `"login";q=3;w=86400`, "Retry-After": "",
			}
			if strings.HasPrefix(file, "traefik") { // sends no field of the check with an allowed request
				fields = map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Retry-After": ""}
			}
			r.fields(t, "a login", fields)
			if r.body != "POST /login name=a" {
				t.Errorf("the application was asked %q", r.body)
			}
		}
		checkDenial(t, user.do("POST", "/login", "name=a"), want["denied"])
		user.do("GET", "/login", "").expect(t, "another method", want["allowed"])
		another.do("POST", "/login", "").expect(t, "another client", want["allowed"])

		c.wire.SetLatency(30 * time.Second)
		asked, begun := c.wire.Counts().Requests, time.Now()
		r = another.do("POST", "/plain/slow", "name=a")
		c.checkUndecided(t, r, "slow", want["Headgate is slow"])
		if r.called && r.body != "POST /plain/slow name=a" {
			t.Errorf("slow: the application was asked %q", r.body)
		}
		if took := time.Since(begun); took < askTimeout/2 || took > 20*time.Second { // Headgate takes 30 s
			t.Errorf("slow: answered after %v, want some %v", took, askTimeout)
		}
		if got := c.wire.Counts().Requests - asked; got != 1 {
			t.Errorf("slow: Headgate was asked %d times, want once", got)
		}
		c.wire.Restore()
		c.wire.Cut()
		begun = time.Now()
		r = another.do("POST", "/plain/down", "")
		c.checkUndecided(t, r, "down", want["Headgate is unavailable"])
		if took := time.Since(begun); took > askTimeout {
			t.Errorf("down: answered after %v, want immediately", took)
		}
		c.wire.Restore()
		another.do("POST", "/login", "").expect(t, "up again", want["allowed"])
		if err := c.closeStore(); err != nil {
			t.Fatal(err)
		}
		r = another.do("POST", "/login", "")
		c.checkUndecided(t, r, "policy fails closed", want["policy fails closed"])
	})
}

// checkDenial checks the whole response to a denied client.
func checkDenial(t *testing.T, r reply, status int) {
	t.Helper()
	r.expect(t, "a login too many", status)
	wait, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || wait < 86000 || wait > 86400 {
		t.Errorf("denied: Retry-After: got %q want some 86400", r.header.Get("Retry-After"))
	}
	r.fields(t, "denied", map[string]string{
		"RateLimit-Policy": `"login";q=3;w=86400`, "RateLimit": `"login";r=0;t=` + strconv.Itoa(wait),
		"Cache-Control": "no-store", "Content-Type": "application/problem+json", "X-Application": "",
	})
	for _, want := range []string{`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"`, `"status":429`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("denied: the body %q does not contain %s", r.body, want)
		}
	}
}

func TestProxiesReplaceClientFields(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		user := c.client(t, "127.0.0.2")
		for i := range 4 {
			lies := []string{
				"X-Forwarded-For", fmt.Sprintf("6.6.6.%d", i), "X-Real-IP", fmt.Sprintf("6.6.6.%d", i), "Forwarded", "for=6.6.6.6",
				"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/free", "X-Forwarded-Host", "lies.test", "X-Forwarded-Proto", "gopher",
				"X-Original-Method", "GET", "X-Original-URI", "/free", "Connection", "keep-alive, X-Forwarded-For",
			}
			status := want["allowed"]
			if i == 3 {
				status = want["denied"]
			}
			user.do("POST", "/login", "", lies...).expect(t, fmt.Sprintf("login %d with other claims", i+1), status)
		}
		key := []string{"X-API-Key", "acme"}
		user.do("GET", "/api/a?deny=503", "", key...).expect(t, "with a key", want["allowed"])
		c.client(t, "127.0.0.3").do("GET", "/api/b?deny=nonsense", "", key...).expect(t, "the same key from elsewhere", want["allowed"])
		user.do("GET", "/api/c?deny=503", "", key...).expect(t, "the key once more", want["denied"])
		user.do("GET", "/api/c", "", "X-API-Key", "other").expect(t, "another key", want["allowed"])
	})
}

// A client that sends the field of its key twice is rejected, or the application gets the
// one value that Headgate got. Otherwise each request could have another key.
func TestProxiesAndRepeatedKeys(t *testing.T) {
	each(t, func(t *testing.T, file string, _ map[string]int) {
		c := newChain(t, file)
		user := c.client(t, "127.0.0.2")
		for i := range 3 {
			r := user.do("GET", "/api/x", "", "X-API-Key", fmt.Sprint("a", i), "X-API-Key", "known", "X-API-Key", fmt.Sprint("b", i))
			if !r.called {
				r.expect(t, "a repeated key", map[bool]int{true: 503, false: 400}[strings.HasPrefix(file, "haproxy")])
				continue
			}
			if got := c.last.Load().Header.Values("X-API-Key"); len(got) != 1 {
				t.Errorf("a repeated key: the application got %q want one value, as Headgate", got)
			}
		}
	})
}

// Every spelling that a program may accept as /login is under its limit, however long the
// request is.
func TestProxyPathSpellings(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		user := c.client(t, "127.0.0.2")
		for range 3 {
			user.do("POST", "//a/..//%6cogin/", "").expect(t, "an odd path", want["allowed"])
		}
		for _, uri := range []string{
			"/login", "/login/", "//login", "/./login", "/a/../login", "/a/%2e%2e/login", "/LOGIN", "/log%69n", "/login?x=/free", "/login?",
			"/a%2f..%2flogin",
			"/login;jsessionid=1", "/login%3Bx", "/%2flogin", "http://shop.test/login",
		} {
			user.do("POST", uri, "").expect(t, uri, want["denied"])
		}
		for _, uri := range []string{"/logins", "/login/x", "/a/login", "/?/login"} {
			user.do("POST", uri, "").expect(t, uri, want["allowed"])
		}
		c.requireLongRequestsDenied(t)
	})
}

// requireLongRequestsDenied sends denied requests with more and more padding. However
// Headgate responds, the application must not be called.
func (c *chain) requireLongRequestsDenied(t *testing.T) {
	t.Helper()
	for _, n := range []int{4, 8, 15, 17, 25, 40, 400, 900} {
		pad := strings.Repeat("a", n<<10)
		for what, fields := range map[string][]string{"uri": {}, "key": {"X-API-Key", pad}, "other": {"X-Other", pad}} {
			uri := "/login"
			if what == "uri" {
				uri += "?" + pad
			}
			for range 3 { // a connection may break at different points
				if r, err := c.tryLong(t, uri, fields); err == nil && r {
					t.Errorf("%d KiB of %s: the application was called", n, what)
				}
			}
		}
	}
}

// Proxies can be configured to accept longer headers than Headgate.
func TestProxiesWithLargerBuffers(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		if strings.HasPrefix(file, "Caddy") {
			return // its buffers are large by default
		}
		c := chainOf(t, file, withLargerBuffers(read(t, file)))
		user := c.client(t, "127.0.0.2")
		for range 3 {
			user.do("POST", "/login", "").expect(t, "a login", want["allowed"])
		}
		c.requireLongRequestsDenied(t)
	})
}

// withLargerBuffers changes a configuration so that nginx or HAProxy accepts longer
// headers than Headgate.
func withLargerBuffers(text string) string {
	for _, larger := range [][2]string{
		{"global\n", "global\n    tune.bufsize 1048576\n"},
		{"    listen 127.0.0.1:8000;\n", "    listen 127.0.0.1:8000;\n    large_client_header_buffers 4 1m;\n"},
	} {
		text = strings.Replace(text, larger[0], larger[1], 1)
	}
	return text
}

// tryLong sends a request that may be too long for the proxy, and reports whether the
// application was called.
func (c *chain) tryLong(t *testing.T, uri string, fields []string) (bool, error) {
	t.Helper()
	before := c.called.Load()
	s := c.client(t, "127.0.0.2")
	text := "POST " + uri + " HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\nConnection: close\r\n"
	if len(fields) > 0 {
		text += fields[0] + ": " + fields[1] + "\r\n"
	}
	if _, err := io.WriteString(s.conn, text+"\r\n"); err != nil {
		return false, err
	}
	_, err := io.Copy(io.Discard, s.conn)
	return c.called.Load() > before, err
}

// A connection to Headgate is reused. HAProxy has one for each of its threads.
func TestProxiesReuseConnections(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		user := c.client(t, "127.0.0.2")
		for range 100 {
			user.do("GET", "/plain/1", "").expect(t, "a request", want["allowed"])
		}
		if got := c.wire.Counts().Connections; got > 8 {
			t.Errorf("100 requests took %d connections to Headgate, want a few", got)
		}
	})
}

// originalFormatConfig sets the fields of nginx's own documentation, and forwards the
// client's header.
const originalFormatConfig = `
proxy_connect_timeout 50ms;
proxy_read_timeout 100ms;
server {
    listen 127.0.0.1:8000;
    location / {
        auth_request /ask;
        auth_request_set $decision $upstream_http_x_ratelimit_decision;
        error_page 403 = @maybe_limited;
        proxy_pass http://127.0.0.1:9000;
    }
    location @maybe_limited { internal; if ($decision = deny) { return 429; } return 403; }
    location = /ask {
        internal;
        proxy_pass http://127.0.0.1:8080/v1/forward-auth?deny=403;
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
        proxy_set_header X-Original-URI $request_uri;
        proxy_set_header X-Original-Method $request_method;
        proxy_set_header X-Real-IP $remote_addr;
        proxy_intercept_errors on;
        error_page 500 502 503 504 = @open;
    }
    location @open { internal; return 204; }
}`

// A configuration as in nginx's own documentation, which forwards the client's whole
// header.
func TestNginxOriginalFormat(t *testing.T) {
	t.Parallel()
	c := chainOf(t, "nginx-by-hand", originalFormatConfig)
	user := c.client(t, "127.0.0.2")
	for i := range 4 {
		lies := []string{
			"X-Forwarded-For", fmt.Sprintf("6.6.6.%d", i), "X-Real-IP", "6.6.6.6", "X-Original-URI", "/free", "X-Forwarded-Host", "x",
		}
		user.do("POST", "/login", "", lies...).expect(t, fmt.Sprintf("login %d", i+1), []int{200, 200, 200, 429}[i])
	}
	for _, name := range []string{"X-Forwarded-Uri", "X-Forwarded-Method"} {
		user.do("POST", "/login", "", name, "/free").expect(t, "a description of the client's own", http.StatusInternalServerError)
	}
	c.client(t, "127.0.0.3").do("POST", "/login", "").expect(t, "another client", http.StatusOK)
	c.wire.Cut()
	user.do("POST", "/login", "").expect(t, "down", http.StatusOK)
}

const directive = `
http://:8000 {
	bind 127.0.0.1
	forward_auth 127.0.0.1:8080 {
		uri /v1/forward-auth?
		copy_headers X-RateLimit-Decision
		transport http {
			dial_timeout 50ms
			response_header_timeout 100ms
		}
	}
	reverse_proxy 127.0.0.1:9000
}
`

func TestCaddyDirective(t *testing.T) {
	t.Parallel()
	c := chainOf(t, "Caddyfile-directive", directive)
	user := c.client(t, "127.0.0.2")
	for i := range 4 {
		lies := []string{"X-Forwarded-For", fmt.Sprintf("6.6.6.%d", i), "X-Real-IP", "6.6.6.6", "X-Forwarded-Uri", "/free"}
		r := user.do("POST", "/login?next=%2F&x", "name=a", lies...)
		r.expect(t, fmt.Sprintf("login %d", i+1), []int{200, 200, 200, 429}[i])
	}
	user.do("POST", "/login", "", "X-Original-URI", "/free").expect(t, "a description of the client's own", http.StatusBadRequest)
	user.do("POST", "/login?deny=503", "").expect(t, "a parameter of the client's", http.StatusTooManyRequests)
}
