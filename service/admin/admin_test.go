package admin_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/service/admin"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// open opens a door on this machine and returns its URL.
func open(t *testing.T, token string) (url string, server *admin.Server) {
	t.Helper()
	h := admin.New(&admin.Options{
		Token: token, Health: says("healthy"), Metrics: says("counted"),
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

// get asks, under another name and with a token if there are.
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

func TestWhatIsThere(t *testing.T) {
	t.Parallel()
	url, _ := open(t, "")
	for path, want := range map[string]string{
		"/metrics": "counted", "/livez": "healthy", "/readyz": "healthy", "/debug/config": "max_checks: 32", "/rlconfig": "a\nb\n",
		"/debug/top-denied": "20", "/debug/top-denied?n=7": "7", "/debug/top-denied?n=1000000": "1000", "/debug/top-denied?n=x": "20",
		"/debug/top-denied?policy=p&key=a%20b": `"hash": "p/a b"`, "/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/cmdline": "admin.test", "/": "/debug/pprof/\n/metrics\n",
	} {
		if status, body := get(t, "GET", url+path, "", ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want 200 and %q", path, status, body, want)
		}
	}
	if status, _ := get(t, "GET", url+"/x", "", ""); status != 404 {
		t.Errorf("another path: %d, want 404", status)
	}
	if status, _ := get(t, "DELETE", url+"/debug/config", "", ""); status != 405 {
		t.Errorf("DELETE: %d, want 405", status)
	}
}

func TestAPageInABrowserCannotAskUnderANameOfItsOwn(t *testing.T) {
	t.Parallel()
	url, _ := open(t, "")
	for host, want := range map[string]int{
		"localhost:6070": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:6070": 200, "127.3.2.1:1": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.nip.io": 403, "10.0.0.1": 403,
	} {
		if status, body := get(t, "GET", url+"/debug/config", host, ""); status != want {
			t.Errorf("Host %s: %d %s, want %d", host, status, body, want)
		}
	}
}

func TestOnlyWhoKnowsTheTokenIsAnswered(t *testing.T) {
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

func TestNobodyWaitsForAProfile(t *testing.T) {
	t.Parallel()
	url, server := open(t, "")
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		resp, err := http.Get(url + "/debug/pprof/trace?seconds=60") //nolint:noctx // it ends with the server
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	if err := server.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-asked
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
