package api

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// One unit is refilled every 20 minutes.
func TestRefill(t *testing.T) {
	limiter, err := headgate.New(memstore.New(nil), headgate.MustPolicy("3/1h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		after   time.Duration
		allowed bool
	}{
		{0, true},
		{0, true},
		{0, true},
		{0, false},
		{20*time.Minute - time.Microsecond, false},
		{20 * time.Minute, true},
		{20 * time.Minute, false},
	} {
		d, err := limiter.AllowAt(t.Context(), noon.Add(c.after), "ann", 1)
		if err != nil || d.Allowed != c.allowed {
			t.Errorf("call %d, after %v: got %+v, %v, want allowed %t", i+1, c.after, d, err, c.allowed)
		}
	}
}
