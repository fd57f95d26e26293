package demo_test

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
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
		name string
		view chromium.View
	}{
		{"demo-light", chromium.View{Width: 1440, Height: 920}},
		{"demo-dark", chromium.View{Width: 1440, Height: 920, Dark: true}},
	} {
		b := open(t, serve(t, demo.Options{}).URL, p.view)
		b.Click(t, "[data-scenario="+*scenario+"]")
		b.Until(t, "Number(document.documentElement.dataset.sent) >= 20")
		time.Sleep(*wait)
		b.Shoot(t, filepath.Join(*pictures, p.name+".png"))
	}
}
