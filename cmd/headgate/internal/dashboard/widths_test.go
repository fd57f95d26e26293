package dashboard_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

// looks are viewports from a small phone to a wide screen. 200 % zoom halves the width
// and height in CSS pixels and doubles the density; 200 % text size changes neither.
var looks = []chromium.View{
	{Width: 320, Height: 568, Phone: true},
	{Width: 390, Height: 844, Phone: true},
	{Width: 768, Height: 1024},
	{Width: 1280, Height: 800, ReducedMotion: true},
	{Width: 1920, Height: 1080},
	{Width: 640, Height: 400, Zoom: 2},
	{Width: 320, Height: 568, Phone: true, Text: 2},
	{Width: 1440, Height: 900, Text: 2},
}

// layout is the layout of the page, with its longest texts.
var layout = &chromium.Layout{
	Long: map[string]string{
		"rate": "1,234,567", "denied-share": "> 99.99 %", "denied-rate": "1,234,567/s · 123,456,789 in 3 min", "p99": "1,234 ms",
		"store-note": "2 nodes are unavailable", "enforcement": "Shadow: no request is denied", "link": "slow: waiting for the service",
		"config-note": "configuration 123; the current file is invalid",
		"readout":     "23:59:59 · per second: 1,234,567 allowed, 1,234,567 denied, 1,234,567 would be denied, p99 1,234 ms",
	},
	Ignored: ".hidden, .skip",
	Scrolls: ".scroll, pre, .diff",
	Boxes:   "button, summary, .figure, .card, .top, .state",
	Bar:     ".top",
}

// TestWidths: for every width, zoom, text size and font, no text is cut off, no control
// covers another one, and no horizontal scrolling is necessary.
func TestWidths(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts a browser")
	}
	t.Parallel()
	s := start(t, policies)
	v := open(t, s, desktop)
	v.fill()
	v.load("#key=bob&keys=overrides&policy=api")
	v.shows("[data-policy=login] .verdict", "denied now")
	v.shows("#key-table tbody", "pattern:")
	for _, look := range looks {
		v.SetView(t, look)
		v.until("document.documentElement.clientWidth === %d", look.Width)
		for _, font := range chromium.Fonts {
			if faults := v.LayoutFaults(t, layout, font.Style); len(faults) > 0 {
				t.Errorf("%s, %s: got %d faults: %q", look, font.Name, len(faults), faults[:min(len(faults), 12)])
			}
		}
	}
}

// TestFonts opens the page on systems that have only one font each.
func TestFonts(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts a browser for each font")
	}
	t.Parallel()
	s := start(t, policies)
	for folder, font := range map[string]string{"truetype/dejavu": "DejaVu Sans", "truetype/roboto": "Roboto", "opentype/cantarell": "Cantarell"} {
		t.Run(font, func(t *testing.T) {
			v := visitor{chromium.Start(t, desktop, chromium.OnlyFont(t, folder, font)), t, s}
			v.load("#key=bob")
			for _, width := range []int64{320, 390, 768, 1280} {
				v.SetView(t, chromium.View{Width: width, Height: 800})
				v.until("document.documentElement.clientWidth === %d", width)
				if faults := v.LayoutFaults(t, layout, ""); len(faults) > 0 {
					t.Errorf("%s: %d px: got %d faults: %q", font, width, len(faults), faults[:min(len(faults), 12)])
				}
			}
		})
	}
}

// TestForcedColors: with forced colours the state of buttons and of the store stays
// visible.
func TestForcedColors(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts a browser")
	}
	t.Parallel()
	v := open(t, start(t, policies), desktop)
	v.forceColors()
	v.until("matchMedia('(forced-colors: active)').matches")
	for _, selector := range []string{"[data-span=live]", "[data-keys=denied]"} {
		pressed := fmt.Sprintf("getComputedStyle(document.querySelector(%q)).backgroundColor", selector)
		v.until("%s !== getComputedStyle(document.querySelector('[data-span=\"1h\"]')).backgroundColor", pressed)
	}
}
