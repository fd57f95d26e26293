package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

var desktop = chromium.View{Width: 1440, Height: 1000}

// visitor is the page in a browser, and the service behind it.
type visitor struct {
	*chromium.Browser
	t testing.TB
	s *running
}

// open starts Chromium and opens the page, and waits until it is live.
func open(t testing.TB, s *running, view chromium.View) visitor {
	t.Helper()
	v := visitor{chromium.Start(t, view), t, s}
	v.load("")
	return v
}

// load loads the page with a fragment in its address, and waits until it is live.
func (v visitor) load(fragment string) {
	v.t.Helper()
	v.navigate(fragment)
	v.until("document.documentElement.dataset.link === 'live' && document.documentElement.dataset.polled > 0")
}

// navigate opens the page with a fragment in its address.
func (v visitor) navigate(fragment string) {
	v.t.Helper()
	v.Do(v.t, chromedp.Navigate("about:blank"), chromedp.Navigate(v.s.admin+"/ui/"+fragment))
}

func (v visitor) until(expression string, args ...any) {
	v.t.Helper()
	v.Until(v.t, fmt.Sprintf(expression, args...))
}

func (v visitor) click(selector string) { v.t.Helper(); v.Click(v.t, selector) }

// text returns the text of an element.
func (v visitor) text(selector string) string {
	v.t.Helper()
	return chromium.Eval[string](v.t, v.Browser, fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", selector))
}

// shows waits until an element contains a text.
func (v visitor) shows(selector, text string) {
	v.t.Helper()
	v.until("(document.querySelector(%q)?.textContent ?? '').includes(%q)", selector, text)
}

// put types a text into a field like a user.
func (v visitor) put(selector, text string) {
	v.t.Helper()
	v.Do(v.t, chromedp.Focus(chromedp.CSS(selector)), chromedp.Evaluate[chromedp.Void]("document.activeElement.select()"))
	v.Do(v.t, chromedp.KeyEvent(kb.Backspace+text+kb.Tab))
}

// choose chooses an option like a user.
func (v visitor) choose(selector, value string) {
	v.t.Helper()
	chromium.Eval[bool](v.t, v.Browser, fmt.Sprintf(`(() => {
		const select = document.querySelector(%q);
		select.value = %q;
		select.dispatchEvent(new Event('change', { bubbles: true }));
		return select.value === %q;
	})()`, selector, value, value))
}

// fragment waits until the address of the page has a parameter, or not.
func (v visitor) fragment(parameter string, present bool) {
	v.t.Helper()
	v.until("location.hash.slice(1).split('&').includes(%q) === %t", parameter, present)
}

// done waits until a change is reported, and the dialog is closed.
func (v visitor) done(text string) {
	v.t.Helper()
	v.shows("#done", text)
	v.until("!document.getElementById('dialog').open")
}

// eventually waits until a condition of the service is true.
func (v visitor) eventually(what string, holds func() bool) {
	v.t.Helper()
	for late := time.Now().Add(deadline); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	v.t.Fatalf("waited in vain for %s", what)
}

// mustBeQuiet fails the test if there is an error in the console other than the given
// ones, and if the token of the service is in an address.
func (v visitor) mustBeQuiet(expected ...string) {
	v.t.Helper()
messages:
	for _, m := range v.Console() {
		for _, text := range expected {
			if strings.Contains(m.Text, text) {
				continue messages
			}
		}
		v.t.Errorf("the console has: %s %s", m.Text, m.URL)
	}
	for _, url := range v.Requests() {
		if v.s.token != "" && strings.Contains(url, v.s.token) || !strings.HasPrefix(url, v.s.admin) && url != "about:blank" && !strings.HasPrefix(url, "data:image/svg+xml;base64,") /* of the browser */ {
			v.t.Errorf("the page requested %s", url)
		}
	}
}

// mustCopy presses the button that copies an element, and compares the clipboard.
func (v visitor) mustCopy(id string) {
	v.t.Helper()
	for _, name := range []browser.PermissionType{"clipboard-read", "clipboard-write"} {
		_, err := chromedp.CallBrowser(v.Context, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: string(name)}, Setting: browser.PermissionSettingGranted,
		})
		if err != nil {
			v.t.Fatal(err)
		}
	}
	v.click("[data-copy=" + id + "]")
	v.done("Copied")
	copied := chromium.Eval[string](v.t, v.Browser, "navigator.clipboard.readText()")
	if shown := chromium.Eval[string](v.t, v.Browser, fmt.Sprintf("document.getElementById(%q).textContent", id)); copied != shown {
		v.t.Errorf("copied %q, shown is %q", copied, shown)
	}
}

// forceColors emulates a system with forced colours.
func (v visitor) forceColors() {
	v.t.Helper()
	features := []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}
	if _, err := chromedp.Call(v.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		v.t.Fatal(err)
	}
}
