package demo_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
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

// deadline bounds waiting; only a failing test waits this long.
const deadline = time.Minute

// open starts Chromium with a new profile and opens url, without the scenario that
// starts on load.
func open(t testing.TB, url string, v chromium.View) *chromium.Browser {
	t.Helper()
	b := chromium.Start(t, v)
	load(t, b, url+"#n=20")
	return b
}

// load loads a page and waits until it is connected.
func load(t testing.TB, b *chromium.Browser, url string) {
	t.Helper()
	b.Do(t, chromedp.Navigate(url), chromedp.WaitEnabled(chromedp.CSS("#one")))
}

// mustBeQuiet fails the test if there is an error in the console. The browser logs
// rejected settings, which are not errors of the page.
func mustBeQuiet(t testing.TB, b *chromium.Browser) {
	t.Helper()
	for _, m := range b.Console() {
		if !strings.HasSuffix(m.URL, "/act") || !strings.Contains(m.Text, "400 (Bad Request)") {
			t.Errorf("the console says: %s %s", m.Text, m.URL)
		}
	}
}
