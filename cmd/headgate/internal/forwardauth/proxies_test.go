package forwardauth_test

import (
	"bufio"
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

	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/testserver"
)

const folder = "../../../../docs/proxies"

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// expectations are the rows of the table in the README: statuses by file and by what happens.
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
					t.Fatalf("README.md: %q in the row of %s is no status", cell, cells[0])
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

// patience is how long proxies wait for Headgate here, in place of 100 ms, which a machine that is busy with tests may take.
const patience = time.Second

// start runs a text such as that of a file of the folder, with the addresses and time-outs of the test.
func start(t *testing.T, file, text, headgate, application string) *testserver.Gateway {
	t.Helper()
	addr := testserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	for _, replaced := range [][2]string{
		{":8000", ":" + port},
		{"127.0.0.1:8080", headgate},
		{"127.0.0.1:9000", application},
		{"50ms", "1s"},
		{"100ms", fmt.Sprint(patience.Milliseconds(), "ms")},
	} {
		if !strings.Contains(text, replaced[0]) {
			t.Fatalf("%s does not hold %s", file, replaced[0])
		}
		text = strings.ReplaceAll(text, replaced[0], replaced[1])
	}
	switch name, _, _ := strings.Cut(file, "-"); name {
	case "nginx":
		return testserver.Nginx(t, addr, text)
	case "Caddyfile":
		return testserver.Caddy(t, addr, text)
	}
	// Abstract sockets are the whole machine's.
	own := strings.NewReplacer("abns@headgate", "abns@headgate"+port)
	return testserver.HAProxy(t, addr, own.Replace(text), map[string]string{"haproxy.lua": own.Replace(read(t, "haproxy.lua"))})
}

// chain is a proxy in front of an application, with Headgate beside.
type chain struct {
	proxy  *testserver.Gateway
	wire   *testserver.FaultProxy // between the proxy and Headgate
	undo   func() error           // takes the store away
	called atomic.Int64           // how often the application was
}

func newChain(t *testing.T, file string) *chain {
	t.Helper()
	return chainOf(t, file, read(t, file))
}

func chainOf(t *testing.T, file, text string) *chain {
	t.Helper()
	c := &chain{}
	h, store := newHandler(t, &options{Options: forwardauth.Options{Local: true}})
	c.undo = store.Close
	mux := http.NewServeMux()
	mux.Handle(forwardauth.Path, h)
	service := httptest.NewUnstartedServer(mux)
	service.Config.MaxHeaderBytes = 16 << 10 // as headgate serve has it
	service.Start()
	t.Cleanup(service.Close)
	c.wire = testserver.Proxy(t, service.Listener.Addr().String())
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.called.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Application", "yes")
		fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
	}))
	t.Cleanup(application.Close)
	c.proxy = start(t, file, text, c.wire.Addr(), application.Listener.Addr().String())
	return c
}

// client is somebody with an address and a connection of their own.
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

// expect checks the status, and that whoever is admitted reaches the application and nobody else does.
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

// each runs a test for every file, at the same time.
func each(t *testing.T, run func(t *testing.T, file string, want map[string]int)) {
	t.Parallel()
	files := expectations(t)
	if len(files) != 6 {
		t.Fatalf("README.md tells of %d files, want 6", len(files))
	}
	for file, want := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			run(t, file, want)
		})
	}
}

func TestProxiesDoWhatTheTableSays(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		somebody, another := c.client(t, "127.0.0.2"), c.client(t, "127.0.0.3")

		r := somebody.do("GET", "/free?x=1", "")
		r.expect(t, "a request under no policy", want["allowed"])
		r.fields(t, "under no policy", map[string]string{
			"RateLimit": "", "RateLimit-Policy": "", "Retry-After": "", "X-Application": "yes",
		})
		for left := 2; left >= 0; left-- {
			r = somebody.do("POST", "/login", "name=a")
			r.expect(t, "a login", want["allowed"])
			r.fields(t, "a login", map[string]string{
				"RateLimit": `"login";r=` + strconv.Itoa(left) + `;t=86400`, "RateLimit-Policy": `"login";q=3;w=86400`, "Retry-After": "",
			})
			if r.body != "POST /login name=a" {
				t.Errorf("the application was asked %q", r.body)
			}
		}
		checkDenial(t, somebody.do("POST", "/login", "name=a"), want["denied"])
		somebody.do("GET", "/login", "").expect(t, "another method", want["allowed"])
		another.do("POST", "/login", "").expect(t, "another client", want["allowed"])

		c.wire.SetLatency(30 * time.Second)
		asked, begun := c.wire.Counts().Requests, time.Now()
		r = another.do("POST", "/plain/1", "name=a")
		r.expect(t, "slow", want["Headgate is slow"])
		if r.called && r.body != "POST /plain/1 name=a" {
			t.Errorf("slow: the application was asked %q", r.body)
		}
		if took := time.Since(begun); took < patience/2 || took > 20*time.Second { // of the 30 that Headgate needs
			t.Errorf("slow: answered after %v, want some %v", took, patience)
		}
		if got := c.wire.Counts().Requests - asked; got != 1 {
			t.Errorf("slow: Headgate was asked %d times, want once", got)
		}
		c.wire.Restore()
		c.wire.Cut()
		begun = time.Now()
		another.do("POST", "/plain/1", "").expect(t, "down", want["Headgate is down"])
		if took := time.Since(begun); took > patience {
			t.Errorf("down: answered after %v, want at once", took)
		}
		c.wire.Restore()
		another.do("POST", "/login", "").expect(t, "up again", want["allowed"])
		if err := c.undo(); err != nil {
			t.Fatal(err)
		}
		another.do("POST", "/login", "").expect(t, "undecided", want["a policy says 503"])
	})
}

// checkDenial checks all of what a denied client gets.
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
			t.Errorf("denied: the body %q does not hold %s", r.body, want)
		}
	}
}

func TestProxiesBelieveNoClient(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		somebody := c.client(t, "127.0.0.2")
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
			somebody.do("POST", "/login", "", lies...).expect(t, fmt.Sprintf("login %d with other claims", i+1), status)
		}
		key := []string{"X-API-Key", "acme"}
		somebody.do("GET", "/api/a?deny=503", "", key...).expect(t, "with a key", want["allowed"])
		c.client(t, "127.0.0.3").do("GET", "/api/b?deny=nonsense", "", key...).expect(t, "the same key from elsewhere", want["allowed"])
		somebody.do("GET", "/api/c?deny=503", "", key...).expect(t, "the key once more", want["denied"])
		somebody.do("GET", "/api/c", "", "X-API-Key", "other").expect(t, "another key", want["allowed"])
	})
}

// What a program may take for /login is under its limit, however it is written, and however long the request is.
func TestProxiesPassPathsAsTheyAreWritten(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		somebody := c.client(t, "127.0.0.2")
		for range 3 {
			somebody.do("POST", "//a/..//%6cogin/", "").expect(t, "an odd path", want["allowed"])
		}
		for _, uri := range []string{
			"/login", "/login/", "//login", "/./login", "/a/../login", "/a/%2e%2e/login", "/LOGIN", "/log%69n", "/login?x=/free", "/login?",
			"/a%2f..%2flogin",
			"/login;jsessionid=1", "/login%3Bx", "/%2flogin", "http://shop.test/login",
		} {
			somebody.do("POST", uri, "").expect(t, uri, want["denied"])
		}
		for _, uri := range []string{"/logins", "/login/x", "/a/login", "/?/login"} {
			somebody.do("POST", uri, "").expect(t, uri, want["allowed"])
		}
		c.expectNoneIsTooLong(t)
	})
}

// expectNoneIsTooLong sends what is denied with more and more around it: whatever Headgate says of that, or does to the connection,
// it is there, and the application is not asked.
func (c *chain) expectNoneIsTooLong(t *testing.T) {
	t.Helper()
	for _, n := range []int{4, 8, 15, 17, 25, 40, 400, 900} {
		pad := strings.Repeat("a", n<<10)
		for what, fields := range map[string][]string{"uri": {}, "key": {"X-API-Key", pad}, "other": {"X-Other", pad}} {
			uri := "/login"
			if what == "uri" {
				uri += "?" + pad
			}
			for range 3 { // connections break in more ways than one
				if r, err := c.tryLong(t, uri, fields); err == nil && r {
					t.Errorf("%d KiB of %s: the application was called", n, what)
				}
			}
		}
	}
}

// Proxies can be told to read longer headers than Headgate does.
func TestProxiesWithLargerBuffersPassNobody(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		text := read(t, file)
		if strings.HasPrefix(file, "Caddy") {
			return // its buffers are large unless its file says otherwise
		}
		for _, larger := range [][2]string{
			{"global\n", "global\n    tune.bufsize 1048576\n"},
			{"    listen 127.0.0.1:8000;\n", "    listen 127.0.0.1:8000;\n    large_client_header_buffers 4 1m;\n"},
		} {
			text = strings.Replace(text, larger[0], larger[1], 1)
		}
		c := chainOf(t, file, text)
		somebody := c.client(t, "127.0.0.2")
		for range 3 {
			somebody.do("POST", "/login", "").expect(t, "a login", want["allowed"])
		}
		c.expectNoneIsTooLong(t)
	})
}

// tryLong sends a request that may be too long for the proxy, and reports whether the application was called.
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

// A connection to Headgate is used again. HAProxy has one for each of its threads.
func TestProxiesKeepConnections(t *testing.T) {
	each(t, func(t *testing.T, file string, want map[string]int) {
		c := newChain(t, file)
		somebody := c.client(t, "127.0.0.2")
		for range 100 {
			somebody.do("GET", "/plain/1", "").expect(t, "a request", want["allowed"])
		}
		if got := c.wire.Counts().Connections; got > 8 {
			t.Errorf("100 requests took %d connections to Headgate, want a few", got)
		}
	})
}

// What people write by themselves: the fields of nginx's own documentation, and the client's header passed on whole.
const byHand = `
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

func TestNginxWithTheOtherDescription(t *testing.T) {
	t.Parallel()
	c := chainOf(t, "nginx-by-hand", byHand)
	somebody := c.client(t, "127.0.0.2")
	for i := range 4 {
		lies := []string{
			"X-Forwarded-For", fmt.Sprintf("6.6.6.%d", i), "X-Real-IP", "6.6.6.6", "X-Original-URI", "/free", "X-Forwarded-Host", "x",
		}
		somebody.do("POST", "/login", "", lies...).expect(t, fmt.Sprintf("login %d", i+1), []int{200, 200, 200, 429}[i])
	}
	for _, name := range []string{"X-Forwarded-Uri", "X-Forwarded-Method"} {
		somebody.do("POST", "/login", "", name, "/free").expect(t, "a description of the client's own", http.StatusInternalServerError)
	}
	c.client(t, "127.0.0.3").do("POST", "/login", "").expect(t, "another client", http.StatusOK)
	c.wire.Cut()
	somebody.do("POST", "/login", "").expect(t, "down", http.StatusOK)
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

func TestCaddyWithItsDirective(t *testing.T) {
	t.Parallel()
	c := chainOf(t, "Caddyfile-directive", directive)
	somebody := c.client(t, "127.0.0.2")
	for i := range 4 {
		lies := []string{"X-Forwarded-For", fmt.Sprintf("6.6.6.%d", i), "X-Real-IP", "6.6.6.6", "X-Forwarded-Uri", "/free"}
		r := somebody.do("POST", "/login?next=%2F&x", "name=a", lies...)
		r.expect(t, fmt.Sprintf("login %d", i+1), []int{200, 200, 200, 429}[i])
	}
	somebody.do("POST", "/login", "", "X-Original-URI", "/free").expect(t, "a description of the client's own", http.StatusBadRequest)
	somebody.do("POST", "/login?deny=503", "").expect(t, "a parameter of the client's", http.StatusTooManyRequests)
}
