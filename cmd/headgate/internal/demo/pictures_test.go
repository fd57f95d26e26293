package demo_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

var (
	pictures = flag.String("pictures", "", "write demo-light.png and demo-dark.png into this folder, and what the test of widths sees; see make screenshots")
	scenario = flag.String("scenario", "edge", "what is going on in the pictures")
	wait     = flag.Duration("wait", 3*time.Second, "how long it goes on, from the first attack on, before they are taken")
)

// TestPictures takes the screenshots of the README, if the flag -pictures names a
// folder.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("no folder was named; make screenshots does")
	}
	for _, p := range []struct {
		name  string
		looks look
	}{
		{"demo-light", look{width: 1440, height: 920}},
		{"demo-dark", look{width: 1440, height: 920, dark: true}},
	} {
		b := open(t, serve(t, demo.Options{}).URL, p.looks)
		b.click(t, "[data-scenario="+*scenario+"]")
		b.until(t, "Number(document.documentElement.dataset.sent) >= 20")
		time.Sleep(*wait)
		b.shoot(t, filepath.Join(*pictures, p.name+".png"))
	}
}

// shoot takes a screenshot of the viewport.
func (b *chrome) shoot(t *testing.T, file string) {
	t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		t.Fatal(err)
	}
}
