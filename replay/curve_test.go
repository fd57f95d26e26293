package replay_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/replay"
)

// TestCurveEqualsReplays: each point of the curve has the numbers of a replay under its
// limits alone.
func TestCurveEqualsReplays(t *testing.T) {
	policies := replay.SideBySide(limits(t, "5/1m burst 9", "30/24h"), headgate.TokenBucket)
	r := reportOf(t, realLog, policies, &replay.Options{Scratch: openMemory, Curve: true})
	want := []string{
		"1/4: 1/m burst 2, 7/d", "1/2: 2/m burst 4, 15/d", "3/4: 3/m burst 6, 22/d", "1: 5/m burst 9, 30/d", "3/2: 7/m burst 13, 45/d",
		"2: 10/m burst 18, 60/d", "3: 15/m burst 27, 90/d", "4: 20/m burst 36, 120/d", "6: 30/m burst 54, 180/d", "8: 40/m burst 72, 240/d",
		"12: 60/m burst 108, 360/d", "16: 80/m burst 144, 480/d",
	}
	var got []string
	for _, p := range r.Curve.Points {
		got = append(got, p.Factor+": "+strings.Join(p.Limits, ", "))
		alone := reportOf(t, realLog, replay.SideBySide(limits(t, p.Limits...), headgate.TokenBucket), &replay.Options{}).Policies[0]
		if p.Denied != alone.Denied || p.DeniedShare != alone.DeniedShare || p.KeysTouched != alone.KeysTouched || p.KeysTouchedShare != alone.KeysTouchedShare {
			t.Errorf("%v: got %+v, a replay has %+v", p.Limits, p, alone)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the limits %q, want %q", got, want)
	}
	if r.Curve.Algorithm != headgate.TokenBucket {
		t.Errorf("the curve is of %s", r.Curve.Algorithm)
	}
}

// TestCurveLimits: small rates are scaled by their period, equal limits appear once, and
// limits out of range not at all.
func TestCurveLimits(t *testing.T) {
	for _, c := range []struct {
		limit string
		want  []string
	}{
		{"1/1m", []string{"1/4m", "1/2m", "1/80s", "1/m", "2/m", "3/m", "4/m", "6/m", "8/m", "12/m", "16/m"}},
		{"3/10s", []string{"1/13333333us", "1/10s", "2/10s", "3/10s", "4/10s", "6/10s", "9/10s", "12/10s", "18/10s", "24/10s", "36/10s", "48/10s"}},
		{"1/366d", []string{"1/366d", "2/366d", "3/366d", "4/366d", "6/366d", "8/366d", "12/366d", "16/366d"}},
		{"600000000/s", []string{"150000000/s", "300000000/s", "450000000/s", "600000000/s", "900000000/s"}},
	} {
		r := reportOf(t, realLog, []headgate.Policy{headgate.MustPolicy(c.limit)}, &replay.Options{Scratch: openMemory, Curve: true})
		var got []string
		for _, p := range r.Curve.Points {
			got = append(got, p.Limits[0])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.limit, got, c.want)
		}
	}
}

// TestMostInPeriod: the most units in any period are equal to the result of a search
// through all decisions, for each algorithm and limit.
func TestMostInPeriod(t *testing.T) {
	var decisions bytes.Buffer
	algorithms := everyAlgorithm()[:6]
	policies := replay.SideBySide(limits(t, "5/1m burst 7", "12/1h"), algorithms...)
	r := reportOf(t, realLog, policies, &replay.Options{Scratch: openMemory, Decisions: &decisions})
	admitted := admittedTimes(t, &decisions)
	for _, p := range r.Policies {
		for i, limit := range p.Limits {
			if p.Algorithm.Queues() {
				if limit.MostInPeriod != nil {
					t.Errorf("%s: %d in a period, although its requests are delayed", p.Algorithm, *limit.MostInPeriod)
				}
				continue
			}
			want := mostWithin(admitted[p.Algorithm], policies[0].Limits[i].Period.Microseconds())
			if limit.MostInPeriod == nil || *limit.MostInPeriod != want {
				t.Errorf("%s under %s: got %v, want %d", p.Algorithm, limit.Limit, limit.MostInPeriod, want)
			}
		}
	}
}

// admittedTimes returns the times of the allowed decisions of each algorithm and key.
// All costs are 1.
func admittedTimes(t *testing.T, decisions *bytes.Buffer) map[headgate.Algorithm]map[string][]int64 {
	t.Helper()
	times := map[headgate.Algorithm]map[string][]int64{}
	for line := range strings.Lines(decisions.String()) {
		var d struct {
			TS        int64 `json:"ts_us"`
			Key       string
			Allowed   bool
			Algorithm headgate.Algorithm
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if times[d.Algorithm] == nil {
			times[d.Algorithm] = map[string][]int64{}
		}
		if d.Allowed {
			times[d.Algorithm][d.Key] = append(times[d.Algorithm][d.Key], d.TS)
		}
	}
	return times
}

// mostWithin returns the most times of one key that are less than one period apart.
func mostWithin(keys map[string][]int64, period int64) (most int64) {
	for _, times := range keys {
		for i, first := range times {
			n := int64(0)
			for _, at := range times[i:] {
				if at-first < period {
					n++
				}
			}
			most = max(most, n)
		}
	}
	return most
}

// TestAdvice: the recommended algorithm denies the fewest keys, and the strict one never
// admits more than the rate in any period.
func TestAdvice(t *testing.T) {
	algorithms := everyAlgorithm()[:6]
	for _, c := range []struct {
		limits []string
		want   replay.Recommendation
		text   string
	}{
		{
			[]string{"5/1m"},
			replay.Recommendation{Algorithm: headgate.TokenBucket, Strict: headgate.SlidingLog},
			"Choose the token bucket: it denied 100 of 1,753 keys (5.70 %), and admitted up to 9 in any 1m for one key. " +
				"If it must never be more than 5 in any 1m, choose the sliding log: it denied 504 of 1,753 keys (28.75 %).",
		},
		{
			[]string{"1/1m burst 3", "20/24h"},
			replay.Recommendation{Algorithm: headgate.TokenBucket, Strict: headgate.SlidingLog},
			"If it must never be more than 1 in any 1m and 20 in any 1d, choose the sliding log",
		},
		{
			[]string{"10000/1m"},
			replay.Recommendation{Algorithm: headgate.TokenBucket, Strict: headgate.TokenBucket},
			"Choose the token bucket: it denied none of 1,753 keys, and never admitted more than 10,000 in any 1m for one key.",
		},
	} {
		r := reportOf(t, realLog, replay.SideBySide(limits(t, c.limits...), algorithms...), &replay.Options{Scratch: openMemory, Curve: true})
		if r.Advice == nil || *r.Advice != c.want {
			t.Errorf("%q: got %+v, want %+v", c.limits, r.Advice, c.want)
		}
		if r.Curve.Algorithm != c.want.Algorithm {
			t.Errorf("%q: the curve is of %s, want the recommended %s", c.limits, r.Curve.Algorithm, c.want.Algorithm)
		}
		if got := strings.Join(strings.Fields(text(t, r)), " "); !strings.Contains(got, c.text) {
			t.Errorf("%q: no %q in %s", c.limits, c.text, got)
		}
	}
}

// TestNoAdviceForOneAlgorithm: policies of one algorithm do not show which algorithm to
// choose.
func TestNoAdviceForOneAlgorithm(t *testing.T) {
	policies := []headgate.Policy{headgate.MustPolicy("5/1m"), headgate.MustPolicy("9/1m")}
	if r := reportOf(t, realLog, policies, &replay.Options{Scratch: openMemory}); r.Advice != nil {
		t.Errorf("got %+v, want no recommendation", *r.Advice)
	}
}

// TestNoAdviceWithOperations: after a refund, the units that were admitted differ
// from the units that were spent. The curve replays the operations as well.
func TestNoAdviceWithOperations(t *testing.T) {
	log := textLog("log", strings.Repeat(`{"ts_us":1000000,"key":"k"}
{"ts_us":1000000,"key":"k","op":"refund","cost":1}
`, 30))
	policies := replay.SideBySide(limits(t, "5/1m"), everyAlgorithm()...)
	r := reportOf(t, []replay.Log{log}, policies, &replay.Options{Scratch: openMemory, Curve: true})
	if r.Advice != nil {
		t.Errorf("got %+v, want no recommendation", *r.Advice)
	}
	for _, p := range r.Curve.Points {
		if p.Denied != 0 {
			t.Errorf("%v denies %d requests, want none: every request is refunded", p.Limits, p.Denied)
		}
	}
}

// TestWorstKeysOverTime: the sum of the denials of a key over time is its total.
func TestWorstKeysOverTime(t *testing.T) {
	r := reportOf(t, realLog, replay.SideBySide(limits(t, "5/1m"), everyAlgorithm()...), &replay.Options{Scratch: openMemory, Curve: true})
	recommended := slices.IndexFunc(r.Policies, func(p replay.PolicyReport) bool { return p.Algorithm == r.Curve.Algorithm })
	for _, key := range r.Worst {
		sum := int64(0)
		for _, denied := range key.Series {
			sum += denied
		}
		if sum != key.Denied[recommended] || len(key.Series) != len(r.Series.Requests) {
			t.Errorf("%s: %d denials in %d intervals, want %d in %d", key.Key, sum, len(key.Series), key.Denied[recommended], len(r.Series.Requests))
		}
	}
}

// TestNoAdviceIfStoreIsFull: numbers of a full store are not used.
func TestNoAdviceIfStoreIsFull(t *testing.T) {
	opts := &replay.Options{Scratch: openMemory, StoreStats: func(headgate.Store) replay.StoreStats {
		return replay.StoreStats{Keys: 1, Overflowed: 1}
	}}
	r, err := replay.Run(t.Context(), realLog, replay.SideBySide(limits(t, "5/1m"), everyAlgorithm()...), openMemory, opts)
	if err != nil {
		t.Fatal(err)
	}
	if r.Advice != nil || r.Policies[0].Limits[0].MostInPeriod != nil {
		t.Errorf("got %+v and %v, want nothing from a full store", r.Advice, r.Policies[0].Limits[0].MostInPeriod)
	}
}

// TestCurveRequiresScratch: without stores for it there is an error instead of a report.
func TestCurveRequiresScratch(t *testing.T) {
	policies := []headgate.Policy{headgate.MustPolicy("5/1m")}
	if _, err := replay.Run(t.Context(), realLog, policies, openMemory, &replay.Options{Curve: true}); err == nil {
		t.Error("got no error")
	}
}
