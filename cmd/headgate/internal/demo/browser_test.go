package demo_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/memstore"
)

// small returns a new small store.
func small() headgate.Store { return memstore.New(&memstore.Options{MaxEntries: 1000}) }

// served is the page on a real server.
type served struct {
	*httptest.Server
	page  *demo.Handler
	store headgate.Store
}

func serve(t testing.TB, opts demo.Options) *served {
	t.Helper()
	s := &served{store: memstore.New(&memstore.Options{MaxEntries: 10_000})}
	if opts.OwnStore == nil {
		opts.OwnStore = small
	}
	page, err := demo.New(s.store, &opts)
	if err != nil {
		t.Fatal(err)
	}
	s.page = page
	s.Server = httptest.NewServer(page)
	t.Cleanup(func() {
		page.Close()
		s.Server.Close()
		s.store.Close()
	})
	return s
}

// chrome is a Chromium with one tab, and the errors in its console.
type chrome struct {
	ctx context.Context
	mu  sync.Mutex
	bad []string
}

// deadline bounds waiting; only a failing test waits this long.
const deadline = time.Minute

// look is the viewport of a browser.
type look struct {
	width, height         int64
	zoom, text            int64 // zoom factors; 0 is 1
	dark, phone, lessMove bool
}

// open starts Chromium with a new profile and opens url, without the scenario that
// starts on load. scripts/setup installs Chromium.
func open(t testing.TB, url string, l look) *chrome {
	t.Helper()
	b := start(t, l)
	b.visit(t, url+"#n=20")
	return b
}

// visit loads a page and waits until it is connected.
func (b *chrome) visit(t testing.TB, url string) {
	t.Helper()
	b.do(t, chromedp.Navigate(url), chromedp.WaitEnabled(chromedp.CSS("#one")))
}

// start starts Chromium with a new profile and additional environment variables.
func start(t testing.TB, l look, env ...string) *chrome {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("this test looks at the page in a real browser: %v; scripts/setup installs it", err)
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Env(env...),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true))
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), flags...)
	b := &chrome{}
	ctx, stop := chromedp.NewContext(alloc, chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		stop()
		stopAlloc()
	})
	if err := chromedp.Do(ctx); err != nil { // the browser is closed with the context of the first run: no deadline
		t.Fatal(err)
	}
	b.hold(t, l)
	return b
}

// hold changes the viewport.
func (b *chrome) hold(t testing.TB, l look) {
	t.Helper()
	scheme, motion := "light", "no-preference"
	if l.dark {
		scheme = "dark"
	}
	if l.lessMove {
		motion = "reduce"
	}
	features := []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		t.Fatal(err)
	}
	var opts []chromedp.EmulateViewportOption
	if l.phone {
		opts = append(opts, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	} else if l.zoom > 1 {
		opts = append(opts, chromedp.EmulateScale(float64(l.zoom)))
	}
	b.do(t, chromedp.EmulateViewport(l.width, l.height, opts...))
}

// listen records what appears in the console: messages, exceptions and failed requests.
func (b *chrome) listen(event any) {
	said := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = fmt.Sprintf("thrown: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		said = fmt.Sprintf("console.%s: %+v", e.Type, e.Args)
	case *cdplog.EventEntryAdded:
		if strings.HasSuffix(e.Entry.URL, "/act") && strings.Contains(e.Entry.Text, "400 (Bad Request)") {
			return // the browser logs a rejected setting, which is not an error of the page
		}
		said = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad = append(b.bad, said)
}

func (b *chrome) mustBeQuiet(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.bad) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(b.bad, "\n"))
	}
}

// do runs actions within the deadline.
func (b *chrome) do(t testing.TB, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// eval evaluates an expression on the page.
func eval[T any](t testing.TB, b *chrome, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits until an expression is true on the page.
func (b *chrome) until(t testing.TB, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(20*time.Millisecond)))
	if err != nil {
		t.Fatalf("waiting for %s: %v", expression, err)
	}
}

// click clicks an element.
func (b *chrome) click(t testing.TB, selector string) {
	t.Helper()
	b.do(t, chromedp.Click(chromedp.CSS(selector)))
}
