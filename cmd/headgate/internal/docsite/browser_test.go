package docsite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

// testLayout: on a phone and on a desktop, light and dark, no page is wider than the
// screen, wide code blocks and tables scroll, all pictures load, and axe-core finds
// nothing serious. All pages have one theme, so axe-core checks an eighth of them. Design
// decisions contain little but text, so a quarter of them is checked, on a phone and
// without axe-core.
func (s *site) testLayout(t *testing.T) {
	views := []chromium.View{phone, desktop, phone, desktop}
	views[1].Dark, views[2].Dark = true, true
	scrolled := 0
	for n, page := range s.pages {
		all, decision := slices.Contains(inAllViews, page), strings.HasPrefix(page, "internals/adr/0")
		if decision && n%4 > 0 {
			continue
		}
		s.SetView(t, views[0])
		s.open(t, page)
		for i, v := range views {
			if i >= 2 && !all || i == 1 && decision {
				break
			}
			s.SetView(t, v)
			s.Until(t, fmt.Sprintf("document.documentElement.clientWidth === %d && document.documentElement.classList.contains('dark') === %t", v.Width, v.Dark))
			got := chromium.Eval[layout](t, s.Browser, measureLayout)
			if scrolled += got.Scrolled; len(got.Faults) > 0 {
				t.Errorf("%s, %s: %q", page, v, got.Faults)
			}
			if all || i == 0 && n%8 == 0 && !decision {
				s.mustBeAccessible(t, fmt.Sprintf("%s, %s, dark %t", page, v, v.Dark))
			}
			s.shoot(t, fmt.Sprintf("%s-%d-%t", strings.ReplaceAll(page, "/", "-"), v.Width, v.Dark))
		}
	}
	if scrolled < len(s.pages) {
		t.Errorf("%d code blocks and tables were scrolled on %d pages", scrolled, len(s.pages))
	}
}

// inAllViews are pages with every kind of content.
var inAllViews = []string{"index.html", "guides/node.html", "reference/algorithms.html", "start/demo.html"}

// mustBeAccessible fails the test if axe-core finds a serious or critical violation.
func (s *site) mustBeAccessible(t *testing.T, what string) {
	t.Helper()
	for _, violation := range s.Violations(t, s.axe) {
		if strings.Contains(violation, "(serious, ") || strings.Contains(violation, "(critical, ") {
			t.Errorf("%s: axe-core reports %s", what, violation)
		}
	}
}

// layout is the result of measureLayout.
type layout struct {
	Faults   []string
	Scrolled int // wide code blocks and tables
}

const measureLayout = `(() => {
	const faults = [], width = document.documentElement.clientWidth;
	let scrolled = 0;
	if (document.documentElement.scrollWidth > width) faults.push('the page is ' + document.documentElement.scrollWidth + ' px wide');
	for (const e of document.querySelectorAll('.vp-doc *, .VPHome *')) {
		if (e.matches('pre, table') && e.scrollWidth > e.clientWidth + 1) {
			e.scrollLeft = 1000;
			if (e.scrollLeft === 0) faults.push('it does not scroll: ' + e.innerText.slice(0, 40));
			e.scrollLeft = 0;
			scrolled++;
		}
		if (!e.checkVisibility() || e.parentElement.closest('pre, table')) continue;
		const right = e.getBoundingClientRect().right;
		if (right > width + 1) faults.push(e.tagName + ' ends at ' + Math.round(right) + ' px: ' + e.innerText.slice(0, 40));
		if (e.matches('img') && e.complete && e.naturalWidth === 0) faults.push('no picture: ' + e.src);
	}
	return { faults, scrolled };
})()`

// testTheme: the switch changes the colours and pictures, and the choice is kept.
func (s *site) testTheme(t *testing.T) {
	s.SetView(t, desktop)
	s.open(t, "start/demo.html")
	colours := func() string {
		return chromium.Eval[string](t, s.Browser, `getComputedStyle(document.body).backgroundColor + ' ' +
			[...document.querySelectorAll('.in-light, .in-dark')].filter((e) => e.checkVisibility()).map((e) => e.className)`)
	}
	light := colours()
	s.Click(t, ".VPNavBar .VPSwitchAppearance")
	dark := colours()
	if !strings.HasSuffix(light, " in-light") || !strings.HasSuffix(dark, " in-dark") || light == dark {
		t.Errorf("got %q in the light theme and %q in the dark one", light, dark)
	}
	s.open(t, "start/demo.html")
	if got := colours(); got != dark {
		t.Errorf("after the page is loaded again: got %q want %q", got, dark)
	}
	s.Click(t, ".VPNavBar .VPSwitchAppearance")
}

// testSearch searches with the keyboard and opens the first result.
func (s *site) testSearch(t *testing.T) {
	for _, c := range []struct{ text, page string }{
		{"fail open", "operate/failure-modes.html"},
		{"graceful shutdown", "operate/deploy.html"},
		{"CL.THROTTLE", "reference/redis-commands.html"},
		{"redis_rate", "migrate/redis-rate.html"},
	} {
		for _, v := range []chromium.View{phone, desktop} {
			s.SetView(t, v)
			s.open(t, "")
			found := s.search(t, c.text)
			if !slices.Contains(found, base+c.page) {
				t.Errorf("%s, %s: got %q, want %s among them", c.text, v, found, c.page)
			}
			s.shoot(t, fmt.Sprintf("search-%s-%d", c.text, v.Width))
			s.mustBeAccessible(t, "search box, "+v.String())
			s.Do(t, chromedp.KeyEvent(kb.Enter))
			s.Until(t, fmt.Sprintf("location.pathname === %q && document.querySelector('.vp-doc')?.innerText.toLowerCase().includes(%q)",
				found[0], strings.ToLower(c.text)))
		}
	}
}

// search enters a text into the search box, waits until the box has highlighted it, and
// returns the paths of the results.
func (s *site) search(t *testing.T, text string) []string {
	t.Helper()
	chromium.Eval[bool](t, s.Browser, "(sessionStorage.clear(), true)") // of the previous text
	s.Click(t, "#local-search button")
	s.Until(t, "document.activeElement.id === 'localsearch-input'")
	if _, err := chromedp.Call(s.Context, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		t.Fatal(err)
	}
	s.Until(t, "document.querySelectorAll('.VPLocalSearchBox .result mark').length > 0")
	return chromium.Eval[[]string](t, s.Browser, "[...document.querySelectorAll('.VPLocalSearchBox .result')].map((e) => e.pathname)")
}

// testWithoutScript: pages can be read if the browser executes no scripts.
func (s *site) testWithoutScript(t *testing.T) {
	off := emulation.SetScriptExecutionDisabledParams{Value: true}
	if _, err := chromedp.Call(s.Context, emulation.SetScriptExecutionDisabled, off); err != nil {
		t.Fatal(err)
	}
	s.Do(t, chromedp.Navigate(s.url+"operate/deploy.html"), chromedp.WaitVisible(chromedp.CSS("#graceful-shutdown")))
	s.shoot(t, "without-script")
}

// shoot writes a screenshot, if the flag -pictures names a folder.
func (s *site) shoot(t *testing.T, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), s.Screenshot(t), 0o600); err != nil {
		t.Fatal(err)
	}
}
