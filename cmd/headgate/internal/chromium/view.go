package chromium

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// View is the viewport of a browser, and the settings of its user.
type View struct {
	Width, Height int64 // in CSS pixels
	Zoom, Text    int64 // factors of the zoom and of the text size; 0 is 1
	Dark          bool
	Phone         bool // emulate a touch screen with two device pixels per CSS pixel
	ReducedMotion bool
}

func (v View) String() string {
	return fmt.Sprintf("%d x %d px, zoom %d %%, text %d %%", v.Width, v.Height, 100*max(v.Zoom, 1), 100*max(v.Text, 1))
}

// SetView changes the viewport and the settings.
func (b *Browser) SetView(t testing.TB, v View) {
	t.Helper()
	scheme, motion := "light", "no-preference"
	if v.Dark {
		scheme = "dark"
	}
	if v.ReducedMotion {
		motion = "reduce"
	}
	features := []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}
	if _, err := chromedp.Call(b.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		t.Fatal(err)
	}
	sizes := &page.FontSizes{Standard: 16 * max(v.Text, 1), Fixed: 13 * max(v.Text, 1)}
	if _, err := chromedp.Call(b.Context, page.SetFontSizes, page.SetFontSizesParams{FontSizes: sizes}); err != nil {
		t.Fatal(err)
	}
	var opts []chromedp.EmulateViewportOption
	if v.Phone {
		opts = append(opts, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	} else if v.Zoom > 1 {
		opts = append(opts, chromedp.EmulateScale(float64(v.Zoom)))
	}
	b.Do(t, chromedp.EmulateViewport(v.Width, v.Height, opts...))
}
