package demo_test

import (
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// TestAxe runs axe-core in several states of the page. npm installs the version in
// package chromium.
func TestAxe(t *testing.T) {
	if testing.Short() {
		t.Skip("this test installs a package with npm")
	}
	t.Parallel()
	axe := chromium.InstallAxe(t)
	s := serve(t, demo.Options{})
	b := open(t, s.URL, chromium.View{Width: 1180, Height: 720})
	v := visit(t, b, s.URL)
	mustPass := func(state string) {
		t.Helper()
		if faults := b.Violations(t, axe); len(faults) > 0 {
			t.Errorf("%s: axe-core reports %q", state, faults)
		}
	}
	mustPass("no requests")
	v.put(t, "rate", "0")
	b.Until(t, "document.getElementById('problem').textContent !== ''")
	mustPass("invalid input")
	v.put(t, "rate", "10")
	b.Click(t, "[data-scenario=servers]")
	v.tab.until(t, "two tracks", func(s state) bool { return s.Sent > 90 })
	b.Click(t, "#stop")
	b.Until(t, "document.getElementById('headline').textContent !== ''")
	mustPass("two tracks and a result")
	for _, l := range []chromium.View{{Width: 1180, Height: 720, Dark: true}, {Width: 390, Height: 844, Phone: true}, {Width: 320, Height: 568, Phone: true}} {
		b.SetView(t, l)
		mustPass(l.String())
	}
}
