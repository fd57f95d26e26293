package replay

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestSketch(t *testing.T) {
	for _, keys := range []int{0, 1, 100, 10_000, 1_000_000} {
		var s sketch
		for i := range keys {
			hash := maphash.Comparable(hashSeed, i)
			s.add(hash)
			s.add(hash)
		}
		if got := float64(s.estimate()); math.Abs(got-float64(keys)) > 0.04*float64(keys) { // 5 standard errors
			t.Errorf("%d keys are estimated as %.0f", keys, got)
		}
	}
}

func count1(y *tally, key string, denials int) {
	n := y.number(maphash.String(hashSeed, key), key)
	y.requests[n]++
	for range denials {
		y.deny(n, 0)
	}
}

// TestTallyIsBounded is T13: for any number of keys, memory stays within the budget,
// and the keys with the most denials are found.
func TestTallyIsBounded(t *testing.T) {
	const budget, keys = 1 << 20, 60_000
	y := newTally(1, budget)
	for i := range keys {
		count1(y, fmt.Sprint("passing by ", i), 0)
		count1(y, fmt.Sprint("unlucky ", i%2000), 1)
		count1(y, "worst", 2)
		if y.bytes() > budget {
			t.Fatalf("after %d keys it holds %d bytes of %d", i, y.bytes(), budget)
		}
	}
	if !y.pruned {
		t.Fatal("nothing was forgotten: the test is too small")
	}
	if n := y.worst(1); len(n) != 1 || y.keys.names[n[0]] != "worst" || y.denials(n[0]) != 2*keys || y.requests[n[0]] != keys {
		t.Errorf("the worst key is %v, want worst with %d denials", n, 2*keys)
	}
	if n, exact := y.distinct(); exact || math.Abs(float64(n)-62_001) > 0.04*62_001 {
		t.Errorf("it knows %d keys, exactly %v; want about 62001, not exactly", n, exact)
	}
	if _, touched := y.policyDenials(0); math.Abs(float64(touched)-2001) > 0.04*2001 {
		t.Errorf("%d keys are touched, want about 2001", touched)
	}
}

func TestTallyIsExactWithinItsBudget(t *testing.T) {
	y := newTally(1, 64<<20)
	for i := range 5000 {
		count1(y, fmt.Sprint(i%1000), i%2)
	}
	denials, touched := y.policyDenials(0)
	if n, exact := y.distinct(); n != 1000 || !exact || touched != 500 || y.forgotten != 0 {
		t.Errorf("%d keys (exact %v), %d touched, %d forgotten; want 1000 exactly, 500, 0", n, exact, touched, y.forgotten)
	}
	if q := quantiles(denials); q != (Quantiles{P50: 0, P90: 5, P99: 5, Max: 5}) {
		t.Errorf("quantiles %+v, want 0, 5, 5, 5", q)
	}
	if n := y.worst(2); y.keys.names[n[0]] != "1" || y.keys.names[n[1]] != "101" {
		t.Errorf("the worst of equals are %q and %q, want 1 and 101, by name", y.keys.names[n[0]], y.keys.names[n[1]])
	}
}

// TestTallyReportsLosses: the losses of a dropped key are at most what the report
// states.
func TestTallyReportsLosses(t *testing.T) {
	const keys = 20_000
	y := newTally(1, 1<<20)
	for i := range keys {
		count1(y, fmt.Sprint("key ", i), 3)
	}
	lost := int64(0)
	for i := range 100 {
		key := fmt.Sprint("key ", i*keys/100)
		count1(y, key, 3)
		lost = max(lost, 6-y.denials(y.number(maphash.String(hashSeed, key), key)))
	}
	if !y.pruned || lost == 0 || y.forgotten < lost {
		t.Errorf("keys lost up to %d denials (pruned %v), and the tally says at most %d; want some, no more than it says", lost, y.pruned, y.forgotten)
	}
}

// TestSeriesBorders: an interval begins at its first µs and ends before the next one's.
func TestSeriesBorders(t *testing.T) {
	s := newSeries(0, 999_999, 1)
	for _, at := range []int64{0, s.width - 1, s.width, 3 * s.width} {
		s.request(at)
	}
	if s.requests[0] != 2 || s.requests[1] != 1 || s.requests[2] != 0 || s.requests[3] != 1 {
		t.Errorf("requests %v, want 2, 1, 0, 1", s.requests[:4])
	}
}

func TestSeries(t *testing.T) {
	const second = 1_000_000
	for _, tt := range []struct {
		name        string
		first, last int64
		width       int64
		spans       int
	}{
		{"one instant", 5, 5, 1000, 1},
		{"a second", 0, second - 1, 10_000, 100},
		{"two minutes", 60 * second, 180*second - 1, second, 120},
		{"two minutes and one µs", 60 * second, 180 * second, 2 * second, 61},
		{"across a border", 3599 * second, 3600 * second, 10_000, 101},
		{"the whole domain", 0, int64(headgate.MaxInstant), 4 * 364 * 86400 * second, 47},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSeries(tt.first, tt.last, 2)
			s.request(tt.first)
			s.deny(1)
			s.request(tt.last)
			s.deny(0)
			if s.width != tt.width || len(s.requests) != tt.spans || len(s.requests) > maxIntervals {
				t.Errorf("%d spans of %d µs, want %d of %d", len(s.requests), s.width, tt.spans, tt.width)
			}
			end := len(s.requests) - 1
			if s.requests[0]+s.requests[end] < 2 || s.denied[1][0] != 1 || s.denied[0][end] != 1 {
				t.Errorf("requests %v, denied %v: not in the first and the last span", s.requests, s.denied)
			}
		})
	}
}

func TestAppendDecision(t *testing.T) {
	q := &request{at: 7, cost: 3, key: "a\"b"}
	d := headgate.Decision{Limit: 10, Remaining: 9, RetryAfter: time.Microsecond, ResetAfter: time.Second, Delay: time.Hour, Never: true}
	got := string(appendDecision(nil, q, appendJSONString(nil, q.key), &d)) + "}"
	want := `{"ts_us":7,"key":"a\"b","cost":3,"allowed":false,"limit":10,"remaining":9,"retry_after_us":1,` +
		`"reset_after_us":1000000,"delay_us":3600000000,"never":true}`
	if got != want || !json.Valid([]byte(got)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
