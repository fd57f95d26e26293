package dashboard_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

// TestAxe runs axe-core in each state of the page, in the light and the dark theme. npm
// installs the version in package chromium.
func TestAxe(t *testing.T) {
	if testing.Short() {
		t.Skip("this test installs a package with npm")
	}
	t.Parallel()
	axe := chromium.InstallAxe(t)
	s := start(t, tokens)
	v := visitor{chromium.Start(t, desktop), t, s}
	mustPass := func(state string) {
		t.Helper()
		for _, dark := range []bool{false, true} {
			v.SetView(t, chromium.View{Width: 1440, Height: 1000, Dark: dark})
			if faults := v.Violations(t, axe); len(faults) > 0 {
				t.Errorf("%s, dark: %v: axe-core reports %q", state, dark, faults)
			}
		}
	}
	v.navigate("")
	v.until("!document.getElementById('access').hidden")
	mustPass("sign in")
	v.signIn("wrong")
	v.shows("#access-problem", "not valid")
	mustPass("a wrong token")
	s.token = "write-token-of-the-test"
	v.signIn(s.token)
	v.until("!document.getElementById('empty').hidden")
	mustPass("no requests")
	v.fill()
	v.load("#key=bob&keys=overrides")
	v.shows("[data-policy=login] .verdict", "denied now")
	v.shows("#key-table tbody", "pattern:")
	mustPass("a key and overrides")
	v.click("[data-policy=login] .actions button:nth-child(3)")
	mustPass("a dialog")
	v.click("#dialog-ok")
	mustPass("a dialog with a problem")
	v.click("#dialog-cancel")
	v.load("#policy=login&config=settings")
	v.click("#numbers summary")
	mustPass("a policy and settings")
	v.load("#config=text&span=12h")
	mustPass("the YAML")
	for _, view := range narrow {
		v.SetView(t, view)
		if faults := v.Violations(t, axe); len(faults) > 0 {
			t.Errorf("%s: axe-core reports %q", view, faults)
		}
	}
}

// narrow are screens of phones.
var narrow = []chromium.View{{Width: 390, Height: 844, Phone: true}, {Width: 320, Height: 568, Phone: true, Dark: true}}

// fill gives the page something to show in each of its tables.
func (v visitor) fill() {
	v.t.Helper()
	v.s.check(30, "api", "acme")
	v.s.check(9, "login", "bob")
	v.s.check(5, "upload", "eve")
	v.s.hold("tokens", "bob", 40)
	for i := range 3 {
		set := map[string]any{"policy": "api", "target": fmt.Sprintf("pattern:partner-%d-*", i), "limits": []string{"1000/1m", "100000/1d"}, "ttl": "2h", "reason": "contract of the partner"}
		if status := v.s.post(v.s.admin+"/admin/v1/overrides/set", map[string]any{"overrides": []any{set}}, nil); status != 200 {
			v.t.Fatalf("set an override: got status %d", status)
		}
	}
}
