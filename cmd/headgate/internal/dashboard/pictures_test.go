package dashboard_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

var pictures = flag.String("pictures", "", "write dashboard-*.png into this folder; see make screenshots")

// TestPictures takes the screenshots of the documentation, if the flag -pictures names a
// folder.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("no folder was named; make screenshots does")
	}
	s := start(t, `
policies:
  api: {limits: ["100/s burst 200"]}
  login: {limits: ["5/15m"], algorithm: sliding_window}
  search: {limits: ["20/s"], algorithm: sliding_window}
  tokens: {limits: ["100000/1m"]}
  upload: {limits: ["10/m queue 20"], algorithm: leaky_bucket, shadow: true}
`)
	v := open(t, s, desktop)
	stop := s.traffic(t)
	s.hold("tokens", "acme", 9000)
	set := map[string]any{"policy": "api", "target": "key:acme", "limits": []string{"500/s burst 1000"}, "ttl": "4h", "reason": "launch of the new plan"}
	if status := s.post(s.admin+"/admin/v1/overrides/set", map[string]any{"overrides": []any{set}}, nil); status != 200 {
		t.Fatalf("set an override: got status %d", status)
	}
	v.until("document.querySelectorAll('#denial-table tbody tr').length > 20")
	for polls := 10; polls <= 100; polls += 10 {
		v.until("document.documentElement.dataset.polled > %d", polls)
	}
	for _, scheme := range []struct {
		name string
		dark bool
	}{{"light", false}, {"dark", true}} {
		v.SetView(t, chromium.View{Width: 1440, Height: 960, Dark: scheme.dark})
		v.load("")
		v.until("document.documentElement.dataset.polled > 3")
		v.Shoot(t, filepath.Join(*pictures, "dashboard-"+scheme.name+".png"))
		v.load("#key=acme")
		v.until("document.querySelectorAll('.state').length === 5 && document.documentElement.dataset.polled > 8")
		chromium.Eval[bool](t, v.Browser, "(document.getElementById('inspector').scrollIntoView(), true)")
		v.Shoot(t, filepath.Join(*pictures, "dashboard-key-"+scheme.name+".png"))
	}
	stop()
	v.mustBeQuiet()
}
