package replay

import (
	"strings"
	"testing"
)

// TestTolerated: the marked limit is the lowest one from which on no limit denies more
// than 1 % of the keys.
func TestTolerated(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   int
		text   string
	}{
		{[]float64{0.5, 0.02, 0.01, 0.001}, 2, "2/s denies 2.00 % of the keys and 0.00 % of the requests. 3/s is the lowest"},
		{[]float64{0.5, 0.005, 0.02, 0.001}, 3, "4/s is the lowest of these limits that denies at most 1 % of the keys: it denies 0.10 %"},
		{[]float64{0.5, 0.4, 0.3, 0.2}, -1, "Each of these limits denies more than 1 % of the keys."},
		{[]float64{0.5, 0.01, 0, 0}, 1, "It is the lowest of these limits"},
		{[]float64{0, 0, 0, 0}, 0, "1/s is the lowest"},
	} {
		curve := Curve{}
		for i, share := range c.shares {
			limit := string(rune('1'+i)) + "/s"
			curve.Points = append(curve.Points, CurvePoint{Factor: factors[i+2].name, Limits: []string{limit}, KeysTouchedShare: share})
		}
		if got := curve.tolerated(); got != c.want {
			t.Errorf("%v: got %d, want %d", c.shares, got, c.want)
		}
		if got := curve.answer(); !strings.Contains(got, c.text) {
			t.Errorf("%v: got %q, want %q in it", c.shares, got, c.text)
		}
	}
}
