package demo_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// visitor is a page in a browser and its session on the server.
type visitor struct {
	*chromium.Browser
	*tab
}

func visit(t *testing.T, b *chromium.Browser, url string) visitor {
	t.Helper()
	return visitor{b, &tab{url: url, session: chromium.Eval[string](t, b, "document.documentElement.dataset.session")}}
}

// mustAgree waits until the page is stable and compares it with the journal of the
// server.
func (v visitor) mustAgree(t *testing.T, what string) (state, shown) {
	t.Helper()
	var differ string
	for deadline := time.Now().Add(deadline); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		kept, page := v.state(t), chromium.Eval[shown](t, v.Browser, readPage)
		if differ = difference(kept, page); differ == "" {
			return kept, page
		}
	}
	t.Fatalf("after %s the page and the server differ: %s", what, differ)
	return state{}, shown{}
}

// TestPageInChromium uses every control in a real browser and compares the page with
// the decisions of the server.
func TestPageInChromium(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{})
	b := open(t, s.URL, chromium.View{Width: 1440, Height: 1000})
	v := visit(t, b, s.URL)
	t.Run("first paint", func(t *testing.T) { v.mustAgree(t, "loading") })
	t.Run("limit", v.testLimit)
	t.Run("buttons", v.testButtons)
	t.Run("names", v.testNames)
	t.Run("dialects", v.testDialects)
	t.Run("bad input", v.testBadInput)
	t.Run("stream", v.testStream)
	t.Run("code", v.testCode)
	t.Run("scenarios", v.testScenarios)
	t.Run("theme", v.testTheme)
	t.Run("keyboard", v.testKeyboard)
	t.Run("widths", v.testWidths)
	mustBeQuiet(t, b)
	t.Run("cut off", func(t *testing.T) {
		settings := v.state(t).Settings
		s.CloseClientConnections()
		v.Until(t, fmt.Sprintf("document.documentElement.dataset.session !== %q", v.session))
		again := visit(t, b, s.URL)
		again.tab.until(t, "the same settings in a new session", func(s state) bool { return s.Settings == settings })
		again.send(t, "#one", 1)
		again.mustAgree(t, "a request on a new stream")
	})
	t.Run("store away", func(t *testing.T) { visit(t, b, s.URL).testStoreUnavailable(t, s) })
	t.Run("no script", v.testWithoutScript)
}

// testStoreUnavailable closes the store: the page shows that, and draws nothing for
// that time.
func (v visitor) testStoreUnavailable(t *testing.T, s *served) {
	s.store.Close()
	v.send(t, "#one", 1)
	_, page := v.mustAgree(t, "a request without a store")
	for _, panel := range page.Panels {
		if panel.Verdict != "503 Service Unavailable" || !strings.Contains(panel.Counts[0].Text, "1 undecided") {
			t.Errorf("%s without a store: got %+v want one undecided", panel.Algorithm, panel)
		}
	}
	v.Until(t, "document.getElementById('link').textContent.startsWith('connected, but ')")
	v.Until(t, "!document.getElementById('undecided').hidden")
	got := chromium.Eval[string](t, v.Browser, `import('/js/chart.js').then(({ known }) => known(
		['a', '', 'away', 'away', '', ''].map((error, t) => ({ t, level: { error } }))).map((stretch) => stretch.map((p) => p.t).join()).join('|'))`)
	if got != "1|4,5" {
		t.Errorf("what is left was known at %s want 1|4,5", got)
	}
}

// testWithoutScript loads the page without scripts: no visible control is without
// effect.
func (v visitor) testWithoutScript(t *testing.T) {
	off := emulation.SetScriptExecutionDisabledParams{Value: true}
	if _, err := chromedp.Call(v.Context, emulation.SetScriptExecutionDisabled, off); err != nil {
		t.Fatal(err)
	}
	v.Do(t, chromedp.Navigate(v.url),
		chromedp.WaitVisible(chromedp.CSS("#glance table")), chromedp.WaitVisible(chromedp.CSS(".notice")),
		chromedp.WaitVisible(chromedp.CSS("#title-leaky_bucket")), chromedp.WaitVisible(chromedp.CSS("#watch-edge")),
		chromedp.WaitNotVisible(chromedp.CSS("#one")), chromedp.WaitNotVisible(chromedp.CSS("#key")))
}

// put types a value into a field like a user, and leaves the field.
func (v visitor) put(t *testing.T, id, value string) {
	t.Helper()
	v.Do(t, chromedp.Focus(chromedp.ID(id)), chromedp.Evaluate[chromedp.Void]("document.activeElement.select()"),
		chromedp.KeyEvent(value), chromedp.KeyEvent(kb.Tab))
}

func (v visitor) testLimit(t *testing.T) {
	for _, f := range []struct {
		id, value string
		get       func(demo.Settings) any
	}{
		{"rate", "7", func(s demo.Settings) any { return s.Rate }},
		{"period", "3600", func(s demo.Settings) any { return s.PeriodMS / 1000 }},
		{"capacity", "9", func(s demo.Settings) any { return s.Burst }},
		{"queue", "4", func(s demo.Settings) any { return s.Queue }},
		{"cost", "2", func(s demo.Settings) any { return s.Cost }},
		{"key", "ada", func(s demo.Settings) any { return s.Key }},
	} {
		v.put(t, f.id, f.value)
		v.tab.until(t, f.id, func(s state) bool { return fmt.Sprint(f.get(s.Settings)) == f.value })
	}
	v.put(t, "cost", "1")
	v.tab.until(t, "cost 1", func(s state) bool { return s.Settings.Cost == 1 })
}

// send clicks a control that sends n requests and waits until the server has decided
// them.
func (v visitor) send(t *testing.T, selector string, n int64) {
	t.Helper()
	before := v.state(t).Sent
	v.Click(t, selector)
	v.tab.until(t, selector, func(s state) bool { return s.Sent == before+n })
}

func (v visitor) testButtons(t *testing.T) {
	before := chromium.Eval[[]string](t, v.Browser, places)
	v.send(t, "#one", 1)
	kept, page := v.mustAgree(t, "Send one")
	if kept.Sent != 1 || kept.Settings.Key != "ada" ||
		page.Panels[0].Verdict != "200 OK" || page.Panels[0].Facts["remaining"] != "8" {
		t.Errorf("one request: got %+v", page.Panels[0])
	}
	v.put(t, "n", "12")
	v.send(t, "#burst", 12)
	v.Until(t, "![...document.querySelectorAll('#requests td')].some((cell) => cell.textContent === '–')")
	kept, page = v.mustAgree(t, "a burst")
	if kept.Sent != 13 || len(page.Rows) != 12 || !strings.Contains(page.Rows[0][3], "denied") {
		t.Errorf("a burst of 12: sent %d, rows %v", kept.Sent, page.Rows)
	}
	for _, panel := range page.Panels {
		if panel.Verdict != "429 Too Many Requests" || !strings.Contains(panel.Fields, "Retry-After: ") {
			t.Errorf("%s: got %s %s want a denial with its fields", panel.Algorithm, panel.Verdict, panel.Fields)
		}
	}
	v.Until(t, drawn+".every((inks) => inks === 'yes,yes')")
	if got := chromium.Eval[[]string](t, v.Browser, places); !slices.Equal(got, before) {
		t.Errorf("the requests moved the page: parts are at\n%q before\n%q", got, before)
	}
	v.Click(t, "#reset")
	v.tab.until(t, "reset", func(s state) bool { return s.Tracks[0].Gates[0].Denied == 0 })
	v.mustAgree(t, "Reset")
}

func (v visitor) testDialects(t *testing.T) {
	v.Do(t, chromedp.Focus(chromedp.ID("dialect")))
	for _, d := range []string{"draft-07", "draft-06", "draft-03", "x-ratelimit", "x-ratelimit-epoch", "github", "off"} {
		v.Do(t, chromedp.Focus(chromedp.ID("dialect")), chromedp.KeyEvent(kb.ArrowDown))
		v.tab.until(t, d, func(s state) bool { return string(s.Settings.Dialect) == d })
		v.send(t, "#one", 1)
		v.mustAgree(t, "a request under "+d)
	}
	v.Do(t, chromedp.Focus(chromedp.ID("dialect")), chromedp.KeyEvent(kb.Home))
	v.tab.until(t, "ietf", func(s state) bool { return s.Settings.Dialect == "ietf" })
}

func (v visitor) testBadInput(t *testing.T) {
	for id, value := range map[string]string{"rate": "0", "period": "0.00001", "queue": "99999", "cost": "1.5"} {
		before := chromium.Eval[string](t, v.Browser, fmt.Sprintf("document.getElementById(%q).value", id))
		v.put(t, id, value)
		v.Until(t, fmt.Sprintf("document.getElementById(%q).getAttribute('aria-invalid') === 'true'", id))
		v.Until(t, "document.getElementById('problem').textContent !== ''")
		v.put(t, id, before)
		v.Until(t, "document.getElementById('problem').textContent === ''")
	}
}

func (v visitor) testStream(t *testing.T) {
	v.put(t, "rate-stream", "50")
	v.Click(t, "#stream")
	v.tab.until(t, "a stream", func(s state) bool { return s.Playing == "stream" && s.Sent > 20 })
	v.Until(t, "document.getElementById('stream').getAttribute('aria-pressed') === 'true'")
	v.Do(t, chromedp.Focus(chromedp.ID("rate-slider")), chromedp.KeyEvent(kb.End))
	if got := chromium.Eval[string](t, v.Browser, "document.getElementById('rate-stream').value"); got != "10000" {
		t.Errorf("the slider's end: got %s a second want 10000", got)
	}
	v.tab.until(t, "ten thousand a second", func(s state) bool { return s.Sent > 3000 })
	v.Until(t, "/up to [0-9,]+ requests/.test(document.getElementById('unit').textContent)")
	v.Click(t, "#stop")
	v.tab.until(t, "stop", func(s state) bool { return s.Playing == "" })
	v.mustAgree(t, "Stop")
	v.Until(t, "document.getElementById('summary').textContent.includes('requests so far. Token bucket: ')")
}

// awaitCopied sets window.copied, a promise that resolves when a button reads “Copied”,
// however briefly.
const awaitCopied = `(() => {
	const button = document.querySelector('[data-copy=%s]');
	window.copied = new Promise((done) => new MutationObserver((records, observer) => {
		if (!button.textContent.startsWith('Copied')) return;
		observer.disconnect();
		done(true);
	}).observe(button, { childList: true, characterData: true, subtree: true }));
	return true;
})()`

func (v visitor) testCode(t *testing.T) {
	for _, name := range []browser.PermissionType{"clipboard-read", "clipboard-write"} {
		_, err := chromedp.CallBrowser(v.Context, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: string(name)}, Setting: browser.PermissionSettingGranted,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range order {
		v.Click(t, fmt.Sprintf("[data-pick=%s]", a))
		v.Click(t, fmt.Sprintf("[data-code=%s]", a))
		for _, kind := range []string{"go", "yaml", "curl"} {
			chromium.Eval[bool](t, v.Browser, fmt.Sprintf(awaitCopied, kind))
			v.Click(t, fmt.Sprintf("[data-copy=%s]", kind))
			chromium.Eval[bool](t, v.Browser, "window.copied")
			shown := chromium.Eval[string](t, v.Browser, fmt.Sprintf("document.getElementById('code-%s').textContent", kind))
			if copied := chromium.Eval[string](t, v.Browser, "navigator.clipboard.readText()"); copied != shown || shown == "" {
				t.Errorf("%s %s: copied %q, shown is %q", a, kind, copied, shown)
			}
		}
		yaml := chromium.Eval[string](t, v.Browser, "document.getElementById('code-yaml').textContent")
		if !strings.Contains(yaml, "algorithm: "+string(a)) {
			t.Errorf("%s: the YAML is %s", a, yaml)
		}
	}
	v.Do(t, chromedp.Focus(chromedp.ID("code-algorithm")), chromedp.KeyEvent(kb.Home))
	yaml := chromium.Eval[string](t, v.Browser, "document.getElementById('code-yaml').textContent")
	if !strings.Contains(yaml, "algorithm: token_bucket\n") {
		t.Errorf("the first algorithm of the list: the YAML is %s", yaml)
	}
}

func (v visitor) testScenarios(t *testing.T) {
	for _, name := range []string{"edge", "pause", "servers", "patience", "hot"} {
		v.Click(t, "[data-scenario="+name+"]")
		v.tab.until(t, name, func(s state) bool { return s.Playing == name && (s.Sent > 4 || name == "edge") })
		v.Until(t, fmt.Sprintf("document.querySelector('[data-scenario=%s]').getAttribute('aria-pressed') === 'true'", name))
		v.Until(t, fmt.Sprintf("!document.getElementById('watch-%s').hidden", name))
		if look := chromium.Eval[bool](t, v.Browser, "document.querySelector('[data-algorithm=fixed_window]').classList.contains('look')"); look != (name == "edge") {
			t.Errorf("%s: the fixed window stands out: %t", name, look)
		}
		v.Until(t, "document.getElementById('note').textContent !== ''")
		v.Click(t, "[data-scenario="+name+"]")
		v.tab.until(t, "the end of "+name, func(s state) bool { return s.Playing == "" })
		v.mustAgree(t, name)
	}
	v.Click(t, "#reset")
	v.tab.until(t, "one track", func(s state) bool { return len(s.Tracks) == 1 })
}

func (v visitor) testTheme(t *testing.T) {
	paper := func() string {
		return chromium.Eval[string](t, v.Browser, "getComputedStyle(document.documentElement).backgroundColor")
	}
	light := paper()
	for _, scheme := range []string{"light", "dark"} {
		if texts := chromium.Eval[[]string](t, v.Browser, pale); len(texts) > 0 {
			t.Errorf("%s: too pale to read: %q", scheme, texts)
		}
		if scheme == "light" {
			v.Click(t, "#theme")
		}
	}
	dark := paper()
	v.SetView(t, chromium.View{Width: 1440, Height: 1000, Dark: true})
	v.Click(t, "#theme")
	if chosen := paper(); light == dark || chosen != light {
		t.Errorf("paper: light %s, pressed %s, pressed again on a dark system %s", light, dark, chosen)
	}
}

// testKeyboard uses the page with the tab key only.
func (v visitor) testKeyboard(t *testing.T) {
	v.Click(t, "h1")
	chromium.Eval[bool](t, v.Browser, "(getSelection().removeAllRanges(), document.querySelector('.skip').focus(), true)")
	var order []string
	for range 26 {
		v.Do(t, chromedp.KeyEvent(kb.Tab))
		order = append(order, chromium.Eval[string](t, v.Browser, `(() => {
			const e = document.activeElement, s = getComputedStyle(e);
			return (e.id || e.dataset.scenario || e.dataset.pick || e.className) +
				(s.outlineStyle === 'none' && s.outlineWidth !== '0px' ? ' without a ring' : '');
		})()`))
	}
	want := []string{
		"docs", "theme", "one", "burst", "stream", "reset", "n", "rate-stream", "rate-slider", "preset",
		"rate", "period", "capacity", "queue", "cost", "key", "dialect", "edge", "pause", "servers", "patience", "hot", "pause",
		"token_bucket", "token_bucket_interval", "fixed_window",
	}
	if !slices.Equal(order, want) {
		t.Errorf("the tab key goes\n%v want\n%v", order, want)
	}
	sent := v.state(t).Sent
	v.Do(t, chromedp.Focus(chromedp.ID("one")), chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(" "))
	v.tab.until(t, "two requests by keyboard", func(s state) bool { return s.Sent == sent+2 })
	v.mustAgree(t, "the keyboard")
}

// testNames checks the accessibility tree: every control has a name, and no two buttons
// have the same.
func (v visitor) testNames(t *testing.T) {
	tree, err := chromedp.Call(v.Context, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	text := func(value *accessibility.Value) (s string) {
		if value != nil {
			_ = json.Unmarshal([]byte(value.Value), &s)
		}
		return s
	}
	named := []string{"button", "spinbutton", "textbox", "slider", "combobox", "link", "img", "image", "region"}
	seen := make(map[string]int)
	for _, node := range tree.Nodes {
		role := text(node.Role)
		if node.Ignored || !slices.Contains(named, role) {
			continue
		}
		name := text(node.Name)
		seen[role+" "+name]++
		if name == "" {
			t.Errorf("a %s has no name", role)
		}
	}
	for _, want := range []string{
		"button Send one", "button Burst of 12", "button Code for Fixed window", "spinbutton Limit", "combobox Header fields", "textbox Key",
		"slider Stream, from 0.1 to 10,000 per second", "combobox Example of a limit",
	} {
		if seen[want] != 1 {
			t.Errorf("%q is there %d times want once; there are %v", want, seen[want], seen)
		}
	}
}
