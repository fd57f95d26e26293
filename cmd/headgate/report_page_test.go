package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

// TestReportPage looks at the report of a replay: its scripts run, all charts are drawn,
// nothing but a table scrolls horizontally, and axe-core finds no violation.
func TestReportPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "report.html")
	if out, err := exec.Command("headgate", "replay", "--policy", "5/1m", "--html", path, "../../testdata/apache_access.log.gz").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := chromium.Start(t, chromium.View{Width: 1280, Height: 900})
	b.Do(t, chromedp.Navigate("file://"+path))
	b.Until(t, "document.querySelectorAll('.chart canvas').length === 3")
	axe := ""
	if !testing.Short() { // installs a package with npm
		axe = chromium.InstallAxe(t)
	}
	for _, view := range []chromium.View{{Width: 1280, Height: 900}, {Width: 390, Height: 844, Phone: true}, {Width: 320, Height: 568, Phone: true}} {
		if view.Width == 320 && hasMadeUp() {
			continue // their names are longer than those of the published algorithms
		}
		for _, view.Dark = range []bool{false, true} {
			b.SetView(t, view)
			b.Until(t, fmt.Sprintf("document.documentElement.clientWidth === %d", view.Width))
			// The charts follow the width of the window later.
			b.Until(t, fmt.Sprintf("document.documentElement.scrollWidth <= %d", view.Width))
			if axe == "" {
				continue
			}
			if faults := b.Violations(t, axe); len(faults) > 0 {
				t.Errorf("%s: axe-core reports %q", view, faults)
			}
		}
	}
	if messages, requests := b.Console(), b.Requests(); len(messages) > 0 || len(requests) != 1 {
		t.Errorf("the console has %+v; the requests are %q, want only the page", messages, requests)
	}
}

// hasMadeUp reports whether scripts/test-made-up-algorithm has added algorithms.
func hasMadeUp() bool {
	return slices.ContainsFunc(algo.Names(), func(name string) bool { return strings.HasPrefix(name, "made_up_") })
}
