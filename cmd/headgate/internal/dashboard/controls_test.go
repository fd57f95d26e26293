package dashboard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

// TestDashboardInChromium uses every control in a real browser, and compares what the
// page shows with the service.
func TestDashboardInChromium(t *testing.T) {
	t.Parallel()
	s := start(t, policies)
	v := open(t, s, desktop)
	v.testEmpty()
	s.check(20, "api", "acme")
	s.check(8, "login", "bob")
	s.check(6, "upload", "eve")
	s.hold("tokens", "acme", 40)
	v.testNumbers()
	v.testInspect()
	if testing.Short() {
		return
	}
	v.testChanges()
	v.testKeys()
	v.testFilters()
	v.testCharts()
	v.testConfiguration()
	v.testPause()
	v.testTheme()
	v.testKeyboard()
	v.mustBeQuiet("400 (Bad Request)")
}

func (v visitor) testEmpty() {
	v.shows("#empty-lines", "curl -d '{\"limit\":\"5/1m\"")
	if lines := strings.Count(v.text("#empty-lines"), "\n"); lines != 2 {
		v.t.Errorf("the empty state has %d lines want 3", lines+1)
	}
	v.shows("#audit-note", "Nobody has changed anything")
	v.shows("#keys-note", "No key was denied")
	v.shows("#denials-note", "Nothing was denied")
	v.shows("#instance", "-")
}

// column is the number in a cell of the table of policies.
const column = `[...document.querySelectorAll('#policy-table tbody tr')].find((row) => row.querySelector('.name').textContent === %q)?.cells[%d].querySelector('b').textContent`

// testNumbers: the page shows the counters of /metrics.
func (v visitor) testNumbers() {
	v.until("document.getElementById('empty').hidden")
	for _, span := range []string{"live", "15m", "1h", "12h"} {
		v.click("[data-span='" + span + "']")
		v.until("document.querySelector('[data-span=\"%s\"]').getAttribute('aria-pressed') === 'true'", span)
		counts := v.s.decisions()
		for name, cells := range map[string]map[string]int{"api": {"allowed": 3}, "login": {"allowed": 3, "denied": 4}, "upload": {"allowed": 3, "shadow": 5}, "tokens": {"allowed": 3}} {
			for outcome, cell := range cells {
				want := counts[name+" "+outcome]
				if want == 0 {
					v.t.Fatalf("/metrics has no %s of %s: %v", outcome, name, counts)
				}
				v.until(column+" === '%d'", name, cell, want)
			}
		}
	}
	v.shows("#denied-rate", fmt.Sprintf("%d in 12 h", v.s.decisions()["login denied"]))
	v.shows("#shadow-rate", fmt.Sprintf("%d in 12 h", v.s.decisions()["upload shadow"]))
	v.click("[data-span=live]")
	v.shows("#store-name", "memory")
	v.shows("#store-facts", "available, checked in")
}

func (v visitor) testInspect() {
	v.put("#find-key", "bob")
	v.choose("#find-policy", "login")
	v.click("#find [type=submit]")
	v.fragment("key=bob", true)
	v.shows("[data-policy=login] .left", "0 of 5 left")
	v.shows("[data-policy=login] .verdict", "denied now")
	v.shows("[data-policy=login] .source", "The limits of the policy apply.")
	v.until("!document.getElementById('watching').hidden")
	v.put("#find-key", "acme")
	v.choose("#find-policy", "")
	v.click("#find [type=submit]")
	v.until("document.querySelectorAll('.state').length === 4")
	v.shows("[data-policy=api] .left", "999,980 of 1,000,000 left")
	v.s.check(3, "api", "acme") // the page is live
	v.shows("[data-policy=api] .left", "999,977 of 1,000,000 left")
	v.shows("[data-policy=tokens] .holds", "1 open hold of 40 units")
}

// testChanges: every change takes effect in the service, and is audited.
func (v visitor) testChanges() {
	v.click("[data-policy=tokens] .holds button")
	v.shows("#dialog-text", "of 40 units")
	v.put("#dialog [name=reason]", "stuck")
	v.click("#dialog-ok")
	v.done("Canceled a hold of 40 units")
	v.until("document.querySelector('[data-policy=tokens] .holds').hidden")
	if left := v.s.remaining("tokens", "acme"); left != 1000 {
		v.t.Errorf("after the hold was canceled, %d units are left want 1000", left)
	}
	v.load("#key=bob&key-policy=login")
	v.shows("[data-policy=login] .left", "0 of 5 left")
	v.click("[data-policy=login] .actions button:nth-child(1)")
	v.shows("#dialog-title", "Reset a key")
	v.click("#dialog-cancel")
	v.until("!document.getElementById('dialog').open")
	v.click("[data-policy=login] .actions button:nth-child(1)")
	v.click("#dialog-ok")
	v.done("Reset: 0 of 5 left before, 5 of 5 left now")
	v.shows("[data-policy=login] .left", "5 of 5 left")
	v.testAdjust()
	v.testOverride()
	audited := v.s.audited()
	for _, want := range []string{"|local||stuck", "reset|local", "debit 4|local||correction", "refund 2|local", "set override|local|key|launch", "set override|local|key|abuse", "remove override|local|key"} {
		if !strings.Contains(audited, want) {
			v.t.Errorf("the audit lacks %q:\n%s", want, audited)
		}
	}
	v.shows("#audit-table", "correction")
	v.shows("#audit-table", "abuse")
}

func (v visitor) testAdjust() {
	v.click("[data-policy=login] .actions button:nth-child(2)")
	v.choose("#dialog [name=operation]", "debit")
	v.put("#dialog [name=cost]", "")
	v.click("#dialog-ok")
	v.shows("#dialog-problem", "Units is required.")
	v.put("#dialog [name=cost]", "4")
	v.put("#dialog [name=reason]", "correction")
	v.click("#dialog-ok")
	v.done("Debited 4 units: 5 of 5 left before, 1 of 5 left now")
	v.shows("[data-policy=login] .left", "1 of 5 left")
	v.click("[data-policy=login] .actions button:nth-child(2)")
	v.put("#dialog [name=cost]", "2")
	v.click("#dialog-ok")
	v.done("Refunded 2 units: 1 of 5 left before, 3 of 5 left now")
	v.shows("[data-policy=login] .left", "3 of 5 left")
}

// testOverride sets an override, replaces it by a block, and removes that.
func (v visitor) testOverride() {
	v.click("[data-policy=login] .actions button:nth-child(3)")
	if got := chromium.Eval[string](v.t, v.Browser, "document.querySelector('#dialog [name=limits]').value"); got != "5/100d" {
		v.t.Errorf("the dialog proposes the limit %q want 5/100d", got)
	}
	v.put("#dialog [name=limits]", "many")
	v.put("#dialog [name=reason]", "launch")
	v.click("#dialog-ok")
	v.until("document.getElementById('dialog-problem').textContent.includes('many')")
	v.put("#dialog [name=limits]", "50/1h")
	v.choose("#dialog [name=ends]", "date")
	v.until("document.querySelector('#dialog [name=date]').checkVisibility()")
	v.click("#dialog-ok")
	v.done("key:bob is now 50/")
	v.shows("[data-policy=login] .source", "An override applies: key:bob, by local, until")
	v.shows("[data-policy=login] .left", "of 50 left")
	v.click("[data-policy=login] .actions button:nth-child(4)")
	v.click("#dialog-ok")
	v.shows("#dialog-problem", "Reason is required.")
	v.put("#dialog [name=reason]", "abuse")
	v.click("#dialog-ok")
	v.done("key:bob is now blocked")
	v.shows("[data-policy=login] .verdict", "denied now")
	v.eventually("the block", func() bool {
		return v.s.post(v.s.http+"/v1/check", map[string]any{"policy": "login", "key": "bob"}, nil) == 429
	})
	v.click("[data-keys=overrides]")
	v.shows("#key-table tbody", "key:bob")
	v.shows("#key-table tbody", "abuse")
	v.click("#key-table .danger")
	v.shows("#dialog-text", "instead of blocked")
	v.click("#dialog-ok")
	v.done("Removed the override of key:bob")
	v.shows("#keys-note", "There is no override in the store.")
	v.testNewOverride()
}

// testNewOverride sets an override for a network, and one for all keys without an end.
func (v visitor) testNewOverride() {
	v.click("#new-override")
	v.choose("#dialog [name=policy]", "api")
	v.choose("#dialog [name=kind]", "network")
	v.put("#dialog [name=value]", "203.0.113.0/24")
	v.put("#dialog [name=limits]", "unlimited")
	v.put("#dialog [name=reason]", "office")
	v.click("#dialog-ok")
	v.done("api: network:203.0.113.0/24 is now unlimited until")
	v.click("#new-override")
	v.choose("#dialog [name=policy]", "upload")
	v.choose("#dialog [name=kind]", "policy")
	v.until("!document.querySelector('#dialog [name=value]').checkVisibility()")
	v.put("#dialog [name=limits]", "9/1h")
	v.put("#dialog [name=reason]", "weekend")
	v.choose("#dialog [name=ends]", "")
	v.click("#dialog-ok")
	v.done("upload: policy is now 9/1h")
	v.shows("#key-table tbody", "never")
}

// testKeys: hot keys are hashes, until a key is inspected.
func (v visitor) testKeys() {
	v.click("[data-keys=denied]")
	v.fragment("keys=overrides", false)
	v.shows("#key-table tbody", "h:")
	v.s.check(4, "login", "mallory")
	v.s.check(4, "login", "mallory")
	v.put("#find-key", "mallory")
	v.choose("#find-policy", "login")
	v.Do(v.t, chromedp.Focus(chromedp.CSS("#find-key")), chromedp.KeyEvent(kb.Enter))
	v.shows("#key-table tbody", "mallory")
	v.shows("#denial-table tbody", "mallory")
	v.click("#close-key")
	v.until("document.querySelectorAll('.state').length === 0")
	v.fragment("key=mallory", false)
	v.click("#key-table td.act button:not([hidden])")
	v.until("location.hash.includes('key=')")
	v.click("#close-key")
	v.s.check(300, "api", "acme")
	v.click("[data-keys=admitted]")
	v.shows("#key-table thead", "Requests")
	v.until("document.querySelectorAll('#key-table tbody tr').length > 0")
	v.click("[data-keys=denied]")
}

// testFilters: every filter is in the address, and applies when it is opened.
func (v visitor) testFilters() {
	rows := func() string {
		return chromium.Eval[string](v.t, v.Browser, "[...document.querySelectorAll('#policy-table tbody .name')].map((e) => e.textContent).join()")
	}
	v.put("#policy-filter", "LO")
	v.fragment("filter=LO", true)
	v.eventually("the filter", func() bool { return rows() == "login,upload" || rows() == "upload,login" })
	v.put("#policy-filter", "none")
	v.shows("#policy-more", "No policy has this in its name.")
	v.Do(v.t, chromedp.Focus(chromedp.CSS("#policy-filter")), chromedp.KeyEvent(kb.Escape))
	for _, sort := range []string{"name", "rate", "allowed", "denied", "shadow", "failed"} {
		v.click("[data-sort=" + sort + "]")
		want := map[string]string{"name": "ascending"}[sort]
		if want == "" {
			want = "descending"
		}
		v.until("document.querySelector('[data-sort=%s]').closest('th').getAttribute('aria-sort') === %q", sort, want)
	}
	v.click("[data-sort=name]")
	v.click("[data-sort=name]")
	v.eventually("the order", func() bool { return rows() == "upload,tokens,login,api" })
	v.click("#policy-table tbody tr:nth-child(3) .name")
	v.fragment("policy=login", true)
	v.shows("#traffic-title", "login")
	v.shows("#policy-facts", "5/100d (fixed window)")
	v.until("[...document.querySelectorAll('#denial-table tbody b')].every((e) => e.textContent === 'login')")
	v.click("#clear-policy")
	v.shows("#traffic-title", "All policies")
	v.load("#span=1h&policy=upload&sort=denied&order=up&keys=overrides&key=eve&key-policy=upload&config=text")
	v.shows("#traffic-title", "upload")
	v.shows("[data-policy=upload] .badge.mode", "shadow")
	v.shows("#key-table tbody", "weekend")
	v.shows("#config-view", "upload:")
	v.until("document.querySelector('[data-span=\"1h\"]').getAttribute('aria-pressed') === 'true'")
	v.load("")
}

// testCharts moves the cursor of the charts with the pointer and the keyboard.
func (v visitor) testCharts() {
	v.s.check(20, "api", "acme")
	v.until("document.querySelector('#chart-requests .layer.allowed').getAttribute('d').length > 10")
	v.Do(v.t, chromedp.Focus(chromedp.CSS("#charts")), chromedp.KeyEvent(kb.End+kb.ArrowLeft))
	v.until("document.querySelector('#chart-denied .cursor').getAttribute('visibility') === 'visible'")
	v.until("/^\\d\\d:\\d\\d:\\d\\d · per second: /.test(document.getElementById('readout').textContent)")
	v.Do(v.t, chromedp.KeyEvent(kb.Escape))
	v.until("document.querySelector('#chart-denied .cursor').getAttribute('visibility') === 'hidden'")
	chromium.Eval[bool](v.t, v.Browser, `(() => {
		const chart = document.getElementById('chart-requests');
		const { left, top, width } = chart.getBoundingClientRect();
		return chart.dispatchEvent(new PointerEvent('pointermove', { clientX: left + width / 2, clientY: top + 20, bubbles: true }));
	})()`)
	v.until("document.querySelector('#chart-latency .cursor').getAttribute('visibility') === 'visible'")
	v.click("#numbers summary")
	v.until("document.querySelectorAll('#numbers tbody tr').length === 12")
	v.click("#numbers summary")
}

// testConfiguration changes the file: the page shows the difference.
func (v visitor) testConfiguration() {
	v.shows("#config-view", "has not changed since the start")
	v.s.configure(strings.Replace(policies, "5/100d", "7/100d", 1))
	v.s.reload()
	v.shows("#config-state", "Configuration 2 is active")
	v.shows("#config-view .added", "7/")
	v.shows("#config-view .removed", "5/")
	v.click("[data-config=settings]")
	v.shows("#config-view", "differ from the defaults")
	v.click("[data-config=text]")
	v.shows("#config-view", "policies:")
	v.click("[data-config=changes]")
	v.click("#config-view summary")
	v.s.configure("policies: 5")
	v.s.reload()
	v.shows("#config-problem", "The current file is invalid")
	v.s.configure(strings.Replace(policies, "5/100d", "7/100d", 1))
	v.s.reload()
	v.until("document.getElementById('config-problem').textContent === ''")
	if got, want := v.text("#diff-line"), "headgate config diff "+v.s.path+" NEW.yaml --log access.log.1"; got != want {
		v.t.Errorf("the command is %q want %q", got, want)
	}
	v.mustCopy("diff-line")
}

func (v visitor) testPause() {
	v.click("#pause")
	v.shows("#link", "paused")
	before := v.text("#rate")
	v.s.check(30, "api", "acme")
	if after := v.text("#rate"); after != before {
		v.t.Errorf("the paused page changed from %s to %s requests per second", before, after)
	}
	v.click("#pause")
	v.shows("#link", "live")
	v.until(column+".replaceAll(',', '') === '%d'", "api", 3, v.s.decisions()["api allowed"])
}

func (v visitor) testTheme() {
	paper := "getComputedStyle(document.documentElement).backgroundColor"
	light := chromium.Eval[string](v.t, v.Browser, paper)
	v.click("#theme")
	if dark := chromium.Eval[string](v.t, v.Browser, paper); dark == light {
		v.t.Errorf("the background is %s in both themes", light)
	}
	v.click("#theme")
	v.until(paper+" === %q", light)
}

// testKeyboard: the first stops of the tab key, and a ring at each of them.
func (v visitor) testKeyboard() {
	chromium.Eval[bool](v.t, v.Browser, "(getSelection().removeAllRanges(), document.querySelector('.skip').focus(), true)")
	var order []string
	for range 8 {
		v.Do(v.t, chromedp.KeyEvent(kb.Tab))
		order = append(order, chromium.Eval[string](v.t, v.Browser, `(() => {
			const e = document.activeElement, s = getComputedStyle(e);
			return (e.id || e.dataset.span || e.dataset.sort || e.className) + (s.outlineStyle === 'none' ? ' without a ring' : '');
		})()`))
	}
	if got, want := strings.Join(order, " "), "live 15m 1h 12h pause theme policy-filter scroll bare"; got != want {
		v.t.Errorf("the tab key goes to %s want %s", got, want)
	}
	v.click("#new-override")
	v.Do(v.t, chromedp.KeyEvent(kb.Escape))
	v.until("!document.getElementById('dialog').open")
}
