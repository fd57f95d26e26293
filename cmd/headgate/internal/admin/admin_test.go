package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/admin"
	"github.com/headgate/headgate/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// gateOf returns a gate with one token, or without tokens.
func gateOf(token string) *access.Gate {
	g := access.NewGate(admin.Local)
	if token != "" {
		g.Use([]access.Token{{Name: "test", Secret: token, Scopes: []access.Scope{access.Read, access.Write}}})
	}
	return g
}

// open serves the admin API on this machine and returns its URL.
func open(t *testing.T, token string) (url string, server *admin.Server) {
	t.Helper()
	h := admin.New(&admin.Options{
		Gate: gateOf(token), Health: says("healthy"), Metrics: says("counted"),
		Config: func(w io.Writer) error { _, err := io.WriteString(w, "max_checks: 32\n"); return err },
		Top:    func(n int) any { return []int{n} },
		Hash:   func(policy, key string) string { return policy + "/" + key },
		Lines:  map[string]func() []string{"/rlconfig": func() []string { return []string{"a", "b"} }},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = admin.NewServer(h, nil)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + ln.Addr().String(), server
}

// get sends a request, with a Host and a token if they are not empty.
func get(t *testing.T, method, url, host, authorization string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestPaths(t *testing.T) {
	t.Parallel()
	url, _ := open(t, "")
	for path, want := range map[string]string{
		"/metrics": "counted", "/livez": "healthy", "/readyz": "healthy", "/debug/config": "max_checks: 32", "/rlconfig": "a\nb\n",
		"/debug/top-denied": "20", "/debug/top-denied?n=7": "7", "/debug/top-denied?n=1000000": "1000", "/debug/top-denied?n=x": "20",
		"/debug/top-denied?policy=p&key=a%20b": `"hash": "p/a b"`, "/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/cmdline": "admin.test", "/debug/pprof/symbol": "num_symbols: 1", "/": "/debug/pprof/\n/metrics\n",
	} {
		if status, body := get(t, "GET", url+path, "", ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want 200 and %q", path, status, body, want)
		}
	}
	if status, _ := get(t, "GET", url+"/x", "", ""); status != 404 {
		t.Errorf("another path: %d, want 404", status)
	}
	for _, path := range []string{"/", "/debug/config", "/metrics", "/debug/top-denied", "/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/trace"} {
		for _, method := range []string{"DELETE", "POST", "PUT", "PROPFIND"} {
			if status, _ := get(t, method, url+path, "", ""); status != 405 {
				t.Errorf("%s %s: %d, want 405", method, path, status)
			}
		}
	}
}

func TestNoStore(t *testing.T) {
	t.Parallel()
	url, _ := open(t, "")
	for _, path := range []string{"/metrics", "/debug/config", "/debug/pprof/", "/livez", "/x"} {
		resp, err := http.Get(url + path) //nolint:noctx // it answers immediately
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if h := resp.Header; h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v, want no-store and nosniff", path, h)
		}
	}
}

func TestCmdlineHidesArguments(t *testing.T) {
	t.Parallel()
	url, _ := open(t, "")
	if _, body := get(t, "GET", url+"/debug/pprof/cmdline", "", ""); body != os.Args[0] {
		t.Errorf("it shows %q, want %q and no argument, which may be a password", body, os.Args[0])
	}
}

func TestCrossSiteRequestsRejected(t *testing.T) {
	t.Parallel()
	url, _ := open(t, "")
	secret, _ := open(t, "secret")
	for _, c := range []struct {
		url, site, dest string
		want            int
	}{
		{url, "", "", 200},
		{url, "none", "document", 200},
		{url, "same-origin", "empty", 200},
		{url, "cross-site", "document", 200},
		{url, "cross-site", "empty", 403},
		{url, "cross-site", "iframe", 403},
		{url, "same-site", "image", 403},
		{url, "cross-site", "", 403},
		{secret, "cross-site", "empty", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/debug/config", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Sec-Fetch-Site": {c.site}, "Sec-Fetch-Dest": {c.dest}, "Authorization": {"Bearer secret"}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%+v: %d", c, resp.StatusCode)
		}
	}
}

// In the synctest bubble time passes immediately, so the connection is a pipe.
func TestSlowClientTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ln := newPipes()
		server := admin.NewServer(admin.New(&admin.Options{Gate: gateOf("secret"), Metrics: says("counted")}), nil)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(ln) }()
		conn := ln.dial()
		began := time.Now()
		fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n")
		answer, err := io.ReadAll(conn)
		if took := time.Since(began); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") || took > 10*time.Second {
			t.Errorf("%.40q, %v, after %v; want 401, and the end within 10 s", answer, err, took)
		}
		conn = ln.dial()
		began = time.Now()
		fmt.Fprint(conn, "GET /met")
		if _, err := io.ReadAll(conn); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("half a header was waited for during %v (%v), want 5 s", time.Since(began), err)
		}
		conn = ln.dial()
		fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
		began = time.Now()
		if _, err := io.ReadAll(conn); err != nil || time.Since(began) != 2*time.Minute {
			t.Errorf("an idle connection was kept for %v (%v), want 2 min", time.Since(began), err)
		}
		conn = ln.dial()
		go func() {
			fmt.Fprintf(conn, "GET /metrics HTTP/1.1\r\nHost: h\r\nX: %s\r\n\r\n", strings.Repeat("x", 32<<10))
		}()
		if answer, err = io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
			t.Errorf("a header of 32 KiB: %.40q, %v, want 431", answer, err)
		}
		_ = conn.Close()
		conn = ln.dial() // and a profile may take longer than that
		began = time.Now()
		fmt.Fprint(conn, "GET /debug/pprof/mutex?seconds=100 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n")
		answer, err = io.ReadAll(conn)
		if took := time.Since(began); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") || took < 100*time.Second {
			t.Errorf("%.40q, %v, after %v; want 200 after 100 s", answer, err, took)
		}
		conn = ln.dial()
		fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\n\r\n")
		time.Sleep(2 * time.Minute) // while the answer is not read
		if answer, err = io.ReadAll(conn); len(answer) > 0 || err != nil {
			t.Errorf("%.40q, %v, of an answer that was not taken for two minutes; want that it was given up", answer, err)
		}
		_ = server.Shutdown(t.Context())
		<-ended
	})
}

// pipes is a listener of in-memory connections.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.ended) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func TestForeignHostRejected(t *testing.T) {
	t.Parallel()
	url, _ := open(t, "")
	for host, want := range map[string]int{
		"localhost:6070": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:6070": 200, "127.3.2.1:1": 200, "[::ffff:127.0.0.1]:6070": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.nip.io": 403, "10.0.0.1": 403,
	} {
		if status, body := get(t, "GET", url+"/debug/config", host, ""); status != want {
			t.Errorf("Host %s: %d %s, want %d", host, status, body, want)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	url, _ := open(t, "secret")
	for _, path := range []string{"/metrics", "/debug/config", "/debug/top-denied", "/debug/pprof/", "/debug/pprof/heap", "/rlconfig", "/", "/x"} {
		for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer secre", "Bearer Secret", "Basic secret", "secret"} {
			if status, _ := get(t, "GET", url+path, "", wrong); status != 401 {
				t.Errorf("%s with %q: %d, want 401", path, wrong, status)
			}
		}
	}
	for _, right := range []string{"Bearer secret", "bearer secret"} {
		if status, body := get(t, "GET", url+"/metrics", "headgate.example:6070", right); status != 200 || body != "counted" {
			t.Errorf("with %q: %d %s, want 200", right, status, body)
		}
	}
	if status, body := get(t, "GET", url+"/readyz", "10.0.0.1", ""); status != 200 || body != "healthy" {
		t.Errorf("/readyz without a token: %d %s, want 200", status, body)
	}
}

func TestShutdownEndsProfiles(t *testing.T) {
	t.Parallel()
	url, server := open(t, "")
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		resp, err := http.Get(url + "/debug/pprof/trace?seconds=3600") //nolint:noctx // it ends with the server
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for stacks := make([]byte, 1<<20); !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("pprof.Trace(")); {
		if time.Sleep(time.Millisecond); ctx.Err() != nil {
			t.Fatal("no profile has begun within 30 s")
		}
	}
	if err := server.Shutdown(ctx); err != nil {
		t.Fatalf("a profile of an hour is under way: got error %v want that it ends", err)
	}
	<-asked
}
