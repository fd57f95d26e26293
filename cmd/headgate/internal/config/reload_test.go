package config_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/memstore"
)

var reloads = flag.Int("reloads", 300, "number of file replacements under load")

func TestMain(m *testing.M) { leaktest.Main(m) }

// generation returns a file whose three policies contain the same number, so that a
// response based on two files is detected.
func generation(n int) string {
	return fmt.Sprintf("policies:\n  a: {limits: [%d/1s]}\n  b: {limits: [%d/1m], algorithm: fixed_window}\n  c: {limits: [%d/1h], overrides: {\"key:k\": [%d/1h]}}\n",
		n, n, n+1, n)
}

// invalidGeneration returns an invalid file, which must never take effect.
func invalidGeneration(n int) string {
	good := generation(-n)
	return []string{
		good, good[:len(good)/2], strings.Replace(generation(n), "limits", "limts", 1), "", generation(n) + "routes: [{policies: [gone]}]\n",
		generation(n) + "---\n" + generation(n),
	}[n%6]
}

// Valid and invalid files are loaded alternately under load: every request is decided
// by one file.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	replace(t, path, generation(1_000_000))
	sources := config.Sources{Path: path}
	first, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(nil)
	defer store.Close()
	e, err := engine.New(store, first.Engine())
	if err != nil {
		t.Fatal(err)
	}
	live := config.Start(sources, first, func(c *config.Config) error { return e.Apply(c.Engine()) }, nil)
	url, stop := serveEngine(t, e)

	var answers, wrong atomic.Int64
	done := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				answers.Add(1)
				if problem := checkResponse(url); problem != "" && wrong.Add(1) < 5 {
					t.Error(problem)
				}
			}
		})
	}
	good, bad, rounds := uint64(1), uint64(0), *reloads
	if testing.Short() {
		rounds = min(rounds, 60)
	}
	for i := range rounds {
		if i%2 == 0 {
			replace(t, path, generation(1_000_001+i))
			good++
		} else {
			replace(t, path, invalidGeneration(1_000_001+i))
			bad++
		}
		live.Refresh()
	}
	close(done)
	load.Wait()
	stop()
	status := live.Status()
	if status.Generation != good || status.Refused != bad || e.ActiveConfig().Generation() != good {
		t.Errorf("%d files took effect and %d were refused, the engine has %d: want %d and %d", status.Generation, status.Refused,
			e.ActiveConfig().Generation(), good, bad)
	}
	t.Logf("%d reloads, %d requests, %d wrong", rounds, answers.Load(), wrong.Load())
}

// replace replaces a file atomically.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func serveEngine(t *testing.T, e *engine.Engine) (url string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.NewServer(httpapi.New(e, nil), nil)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	return "http://" + ln.Addr().String(), func() {
		http.DefaultClient.CloseIdleConnections()
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// checkResponse sends a request for all three policies and returns what is wrong with
// the response.
func checkResponse(url string) string {
	resp, err := http.Post(url+"/v1/check", "application/json",
		strings.NewReader(`{"checks":[{"policy":"a","key":"k"},{"policy":"b","key":"k"},{"policy":"c","key":"k"}]}`))
	if err != nil {
		return "dropped: " + err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%s, error %v: %s", resp.Status, err, body)
	}
	var a, b, c int
	policies := resp.Header.Get("RateLimit-Policy")
	if n, err := fmt.Sscanf(policies, `"a";q=%d;w=1, "b";q=%d;w=60, "c";q=%d;w=3600`, &a, &b, &c); n != 3 || err != nil || a != b || b != c || a < 1_000_000 {
		return "mixed files: " + policies
	}
	return ""
}

// A policy with changed limits keeps its usage, and so does a key that gets an override.
func TestReloadKeepsUsage(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	defer store.Close()
	e, err := engine.New(store, mustLoad(t, "policies: {p: {limits: [10/1h], algorithm: fixed_window}}").Engine())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		text string
		left int64
	}{
		{"policies: {p: {limits: [20/1h], algorithm: fixed_window}}", 18},
		{"policies: {p: {limits: [20/1h], algorithm: fixed_window, overrides: {\"key:k\": [50/1h]}}}", 47},
		{"policies: {p: {limits: [2/1h], algorithm: fixed_window, shadow: true}}", 0},
		{"enforcement: shadow\npolicies: {p: {limits: [9/1h], algorithm: fixed_window}}", 6},
		{"policies: {q: {limits: [9/1h], algorithm: fixed_window}, p: {limits: [9/1h], algorithm: fixed_window}}", 5},
	} {
		var a engine.Answer
		if err := e.DecideAt(t.Context(), 1_747_785_600_000_000, 0, []engine.Check{{Policy: "p", Key: "k", Cost: 1}}, &a); err != nil || !a.Allowed {
			t.Fatalf("before %s: %+v, %v", c.text, a.Decision, err)
		}
		if err := e.Apply(mustLoad(t, c.text).Engine()); err != nil {
			t.Fatal(err)
		}
		err := e.DecideAt(t.Context(), 1_747_785_600_000_000, 0, []engine.Check{{Policy: "p", Key: "k", Cost: 1}}, &a)
		if err != nil || a.Remaining != c.left {
			t.Errorf("%d, %s: %d remain, error %v, want %d", i, c.text, a.Remaining, err, c.left)
		}
		if err := e.DecideAt(t.Context(), 1_747_785_600_000_000, 2, []engine.Check{{Policy: "p", Key: "k", Cost: 1}}, &a); err != nil {
			t.Fatal(err)
		}
	}
}

// mustLoad returns the configuration of a file's text, without flags and environment.
func mustLoad(t *testing.T, text string) *config.Config {
	t.Helper()
	parsed, err := config.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	sources := config.Sources{Path: "f.yaml"}
	c, err := sources.Over(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reloadRecorder records reloads.
type reloadRecorder struct {
	mu  sync.Mutex
	all []config.Reload
}

func (h *reloadRecorder) add(r config.Reload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, r)
}

// The same error is reported once, and a restored file takes effect again.
func TestReloadReports(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	replace(t, path, "max_checks: 1\n")
	sources := config.Sources{Path: path}
	first, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	var h reloadRecorder
	refuse := false
	live := config.Start(sources, first, func(*config.Config) error {
		if refuse {
			return fmt.Errorf("the store refuses it")
		}
		return nil
	}, h.add)
	for _, step := range []struct {
		name string
		do   func()
		want string // empty: no report
	}{
		{"the same file", func() {}, ""},
		{"another valid file", func() { replace(t, path, "max_checks: 2\nmax_body_bytes: 9\n") }, "generation 2, restart [max_body_bytes]"},
		{"an invalid file", func() { replace(t, path, "max_checks: 0\n") }, "refused: max_checks: 0 is out of range"},
		{"the same invalid file", func() { replace(t, path, "max_checks: 0\n") }, ""},
		{"another invalid file", func() { replace(t, path, "max_checks: -1\n") }, "refused: max_checks: -1 is out of range"},
		{"no file", func() { _ = os.Remove(path) }, "refused: no such file"},
		{"still no file", func() {}, ""},
		{"the earlier file", func() { replace(t, path, "max_checks: 2 # as before\n") }, "generation 3, restart []"},
		{"a file that cannot be applied", func() { refuse = true; replace(t, path, "max_checks: 3\n") }, "refused: the store refuses it"},
		{"still cannot be applied", func() {}, ""},
		{"can be applied", func() { refuse = false }, "generation 4, restart []"},
		{"a folder", func() { _ = os.Remove(path); _ = os.Mkdir(path, 0o700) }, "refused: is a directory"},
	} {
		step.do()
		h.all = nil
		live.Refresh()
		got := ""
		for _, r := range h.all {
			if got += fmt.Sprintf("generation %d, restart %v", r.Generation, r.Restart); r.Err != nil {
				got = "refused: " + r.Err.Error()
			}
		}
		if want := strings.TrimPrefix(step.want, "refused: "); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: got %q want %q", step.name, got, step.want)
		}
	}
	if got := live.Config().MaxChecks; got != 3 {
		t.Errorf("max_checks is %d at the end, want 3, of the last valid file", got)
	}
}
