package algo_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// TestCommitAfterChangedLimit checks that a commit returns what the hold has charged
// under the limit at its beginning, and nothing that was charged for others.
func TestCommitAfterChangedLimit(t *testing.T) {
	perSecond := func(rate, burst int64) headgate.Limit {
		return headgate.Limit{Rate: rate, Period: time.Second, Burst: burst}
	}
	in := func(seconds int64) headgate.Limit {
		return headgate.Limit{Rate: 10, Period: time.Duration(seconds) * time.Second}
	}
	at := func(seconds int64, verb, id string, n int64) holdStep {
		return holdStep{t: 1e15 + seconds*1e6, verb: verb, id: id, n: n, deadline: 2e15}
	}
	for _, c := range []struct {
		name          string
		algorithm     headgate.Algorithm
		before, after headgate.Limit
		steps         []holdStep // under the first limit
		commits       []holdStep // under the second limit
		remaining     int64
		resetAfter    time.Duration
	}{
		{
			"slower refill", headgate.TokenBucket, perSecond(10, 100), perSecond(1, 100),
			[]holdStep{at(0, "take", "", 50), at(0, "hold", "a", 10)},
			[]holdStep{at(0, "commit", "a", 0)},
			95, 5 * time.Second,
		},
		{
			"faster refill", headgate.TokenBucket, perSecond(1, 100), perSecond(10, 1000),
			[]holdStep{at(0, "take", "", 50), at(0, "hold", "a", 10)},
			[]holdStep{at(0, "commit", "a", 0)},
			500, 50 * time.Second,
		},
		{
			"lower capacity", headgate.TokenBucket, perSecond(1, 10), perSecond(1, 4),
			[]holdStep{at(0, "hold", "a", 5), at(0, "hold", "b", 5)},
			[]holdStep{at(0, "commit", "a", 0), at(0, "commit", "b", 2)},
			2, 2 * time.Second,
		},
		{
			"longer window that contains the next one", headgate.FixedWindow, in(10), in(100),
			[]holdStep{at(5, "hold", "a", 5), at(15, "take", "", 4)},
			[]holdStep{at(16, "commit", "a", 0)},
			6, 84 * time.Second,
		},
		{
			"shorter window", headgate.FixedWindow, in(100), in(7),
			[]holdStep{at(5, "hold", "a", 5), at(5, "take", "", 4)},
			[]holdStep{at(6, "commit", "a", 0)},
			6, 100 * time.Second,
		},
		{
			"longer window that contains three", headgate.SlidingWindow, in(10), in(100),
			[]holdStep{at(5, "hold", "a", 5), at(25, "take", "", 3)},
			[]holdStep{at(26, "commit", "a", 0)},
			7, 174 * time.Second,
		},
		{
			"hold in the previous window", headgate.SlidingWindow, in(10), in(100),
			[]holdStep{at(5, "hold", "a", 5), at(15, "take", "", 3)},
			[]holdStep{at(16, "commit", "a", 0)},
			7, 184 * time.Second,
		},
	} {
		k := newHoldKey(mustNamed(t, c.algorithm), c.before)
		for i := range c.steps {
			k.run(&c.steps[i], false)
		}
		k.bind(mustNamed(t, c.algorithm), c.after)
		var got holdAnswer
		for i := range c.commits {
			got = k.run(&c.commits[i], false)
		}
		if got.decision.Remaining != c.remaining || got.decision.ResetAfter != c.resetAfter {
			t.Errorf("%s: got %+v want %d remaining and %v until unused", c.name, got.decision, c.remaining, c.resetAfter)
		}
	}
}

// TestExpiryAfterChangedLimit checks that a hold that expired before the limit was
// lowered changes nothing for units that others spent: the state is converted when the
// new limit is used first, not at the deadline.
func TestExpiryAfterChangedLimit(t *testing.T) {
	limit := headgate.Limit{Rate: 1, Period: time.Second, Burst: 10}
	k := newHoldKey(mustNamed(t, headgate.TokenBucket), limit)
	k.release = true
	k.run(&holdStep{t: 1e15, verb: "hold", id: "a", n: 2, deadline: 1e15 + 1e6}, false)
	k.run(&holdStep{t: 1e15, verb: "take", n: 8}, false)
	limit.Burst = 4
	k.bind(mustNamed(t, headgate.TokenBucket), limit)
	got := k.run(&holdStep{t: 1e15 + 6e6, verb: "peek"}, false)
	if want := int64(2); got.decision.Remaining != want { // 8 units were spent, and 6 have refilled
		t.Errorf("got %+v want %d remaining", got.decision, want)
	}
}
