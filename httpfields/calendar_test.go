package httpfields_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
)

// The window of a limit with a calendar is that of the present: w changes with the month.
func TestCalendarWindowLength(t *testing.T) {
	t.Parallel()
	w, err := httpfields.New(&httpfields.Options{Dialects: []httpfields.Dialect{httpfields.IETF}})
	if err != nil {
		t.Fatal(err)
	}
	set := w.Set(
		httpfields.Limit{Name: "budget", Limit: headgate.MustParseLimit("1000/month in America/New_York")},
		httpfields.Limit{Name: "week", Limit: headgate.MustParseLimit("70/week"), Algorithm: headgate.CalendarWindow},
		httpfields.Limit{Name: "bucket", Limit: headgate.MustParseLimit("70/week")},
	)
	for _, c := range []struct{ now, month string }{
		{"2026-02-10T12:00:00Z", "2419200"},
		{"2026-03-01T04:59:59Z", "2419200"},
		{"2026-03-01T05:00:00Z", "2674800"}, // 31 days, of which one has 23 hours
		{"2026-11-30T05:00:00Z", "2595600"}, // 30 days, of which one has 25 hours
		{"2026-02-28T05:00:00Z", "2419200"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		decisions := []headgate.Decision{{Allowed: true, Limit: 1000, Remaining: 5}, {Allowed: true, Limit: 70, Remaining: 60}, {Allowed: true, Limit: 70, Remaining: 60}}
		w.Write(h, set, decisions, now, new(strings.Builder))
		want := `"budget";q=1000;w=` + c.month + `, "week";q=70;w=604800, "bucket";q=70;w=604800`
		if got := h.Get("RateLimit-Policy"); got != want {
			t.Errorf("%s: RateLimit-Policy: got %s want %s", c.now, got, want)
		}
		if got, want := h.Get("RateLimit"), `"budget";r=5;t=`+c.month; got != want {
			t.Errorf("%s: RateLimit of an unused window: got %s want %s", c.now, got, want)
		}
	}
}
