package demo_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

// looks are viewports from a small phone to a wide screen, with the text sizes of
// browsers. 200 % zoom halves the width and height in CSS pixels and doubles the
// density; 200 % text size changes neither.
var looks = []chromium.View{
	{Width: 320, Height: 568, Phone: true},
	{Width: 390, Height: 844, Phone: true},
	{Width: 768, Height: 1024},
	{Width: 1440, Height: 900, ReducedMotion: true},
	{Width: 1920, Height: 1080},
	{Width: 384, Height: 512, Zoom: 2},
	{Width: 640, Height: 400, Zoom: 2},
	{Width: 720, Height: 450, Zoom: 2},
	{Width: 320, Height: 568, Phone: true, Text: 2},
	{Width: 390, Height: 844, Phone: true, Text: 2},
	{Width: 768, Height: 1024, Text: 2},
	{Width: 1440, Height: 900, Text: 2},
}

// testWidths: for every width, zoom, text size and font, no text is cut off, no control
// covers another one, and no horizontal scrolling is necessary. The page shows its
// longest texts.
func (v visitor) testWidths(t *testing.T) {
	v.Click(t, "[data-scenario=servers]")
	v.tab.until(t, "two tracks", func(s state) bool { return s.Playing == "servers" && s.Sent > 4 })
	v.Click(t, "#stop")
	v.tab.until(t, "stop", func(s state) bool { return s.Playing == "" })
	v.mustAgree(t, "two tracks")
	looks, fonts := looks, chromium.Fonts
	if testing.Short() {
		looks, fonts = looks[1:4], fonts[:3]
	}
	for _, l := range looks {
		v.SetView(t, l)
		v.Until(t, fmt.Sprintf("document.documentElement.clientWidth === %d", l.Width))
		chromium.Eval[bool](t, v.Browser, "document.getElementById('settings').open = true")
		for _, f := range fonts {
			if faults := v.LayoutFaults(t, layout, f.Style); len(faults) > 0 {
				t.Errorf("%s, %s: got %d faults: %q", l, f.Name, len(faults), faults[:min(len(faults), 12)])
			}
			if *pictures != "" {
				v.Shoot(t, fmt.Sprintf("%s/%d-%d-%d-%s.png", *pictures, l.Width, max(l.Zoom, 1), max(l.Text, 1), f.Name))
			}
		}
	}
	v.SetView(t, chromium.View{Width: 1440, Height: 1000})
}

// layout is the layout of the page, with its longest texts.
var layout = &chromium.Layout{
	Long: map[string]string{
		"link": "rejected: too many open pages? retrying", "unit": "bars: up to 5,000 requests in 0.24 s",
		"note": "waiting for the window boundary: 3.4 s", "sent": "36,000,000", "speed": "10,000", "label-rate": "10,000", "label-n": "1,000",
	},
	Ignored: ".hidden, .skip, .word",
	Scrolls: ".scroll, .snippet pre, .pills",
	Boxes:   "button, summary, .panel, .top, .actions, .last, .snippet",
	Bar:     ".actions",
}
