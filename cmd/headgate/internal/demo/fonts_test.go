package demo_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// TestFonts opens the page on systems that have only one font each. For every width, no
// text is cut off and no control covers another one, and all panels fit on one screen.
func TestFonts(t *testing.T) {
	if testing.Short() {
		t.Skip("this test starts a browser for each font")
	}
	t.Parallel()
	s := serve(t, demo.Options{})
	for folder, font := range map[string]string{
		"truetype/dejavu": "DejaVu Sans", "truetype/liberation": "Liberation Sans", "truetype/roboto": "Roboto",
		"opentype/cantarell": "Cantarell", "truetype/open-sans": "Open Sans",
	} {
		t.Run(font, func(t *testing.T) {
			b := chromium.Start(t, chromium.View{Width: 1180, Height: 720}, chromium.OnlyFont(t, folder, font))
			load(t, b, s.URL+"#n=20")
			v := visit(t, b, s.URL)
			mustBeOnScreen(t, b)
			b.Click(t, "[data-scenario=servers]")
			v.tab.until(t, "two tracks", func(s state) bool { return s.Sent > 4 })
			b.Click(t, "#stop")
			b.Until(t, "document.documentElement.dataset.playing === ''")
			for _, l := range []chromium.View{
				{Width: 320, Height: 568, Phone: true},
				{Width: 390, Height: 844, Phone: true},
				{Width: 768, Height: 1024},
				{Width: 1280, Height: 720},
				{Width: 1920, Height: 1080},
			} {
				b.SetView(t, l)
				b.Until(t, fmt.Sprintf("document.documentElement.clientWidth === %d", l.Width))
				chromium.Eval[bool](t, b, "document.getElementById('settings').open = true")
				if faults := b.LayoutFaults(t, layout, ""); len(faults) > 0 {
					t.Errorf("%s: got %d faults: %q", l, len(faults), faults[:min(len(faults), 12)])
				}
				if l.Width >= 1180 {
					mustBeOnScreen(t, b)
				}
			}
		})
	}
}
