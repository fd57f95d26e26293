package admissiontest

import (
	"time"

	"github.com/headgate/headgate"
)

const ms = time.Millisecond

func policy(a headgate.Algorithm, name string, limits ...string) headgate.Policy {
	p := headgate.MustPolicy(limits...)
	p.Name, p.Algorithm = name, a
	return p
}

func queue(limits ...string) headgate.Policy { return policy(headgate.LeakyBucket, "queue", limits...) }

// on is p with another failure mode.
func on(mode headgate.OnStoreError, p headgate.Policy) headgate.Policy {
	p.OnStoreError = mode
	return p
}

// scenarios is the table. One request a second means that the n-th request of a queue
// goes ahead after n - 1 seconds.
func scenarios() []scenario {
	perSecond := []headgate.Policy{queue("1/1s queue 9")}
	return []scenario{{
		name: "nobody leaves", policies: perSecond,
		requests: []request{{}, {}, {}}, want: []time.Duration{0, 1000 * ms, 2000 * ms},
	}, {
		name: "first leaves", policies: perSecond,
		requests: []request{{}, {leaves: 500 * ms}, {}, {}, {at: 600 * ms}},
		want:     []time.Duration{0, gone, 2000 * ms, 3000 * ms, 4000 * ms},
	}, {
		name: "middle leaves", policies: perSecond,
		requests: []request{{}, {}, {leaves: 500 * ms}, {}, {at: 600 * ms}},
		want:     []time.Duration{0, 1000 * ms, gone, 3000 * ms, 4000 * ms},
	}, {
		name: "last leaves", policies: perSecond,
		requests: []request{{}, {}, {}, {leaves: 500 * ms}, {at: 600 * ms}},
		want:     []time.Duration{0, 1000 * ms, 2000 * ms, gone, 3000 * ms},
	}, {
		name: "clients leave in every round", policies: []headgate.Policy{queue("5/1s queue 10")},
		requests: []request{
			{}, {leaves: 10 * ms}, {leaves: 10 * ms}, {}, // 600 ms
			{at: 20 * ms, leaves: 30 * ms}, {at: 20 * ms, leaves: 30 * ms}, {at: 20 * ms}, // 1200 ms
			{at: 40 * ms, leaves: 50 * ms}, {at: 40 * ms, leaves: 50 * ms}, {at: 40 * ms}, // 1800 ms
		},
		want: []time.Duration{0, gone, gone, 600 * ms, gone, gone, 1200 * ms, gone, gone, 1800 * ms},
	}, {
		name: "turn due when the client leaves", policies: perSecond,
		requests: []request{{}, {leaves: 1000 * ms}, {leaves: 2000 * ms}, {leaves: 3000 * ms}, {leaves: 4000 * ms}, {}},
		want:     []time.Duration{0, 1000 * ms, 2000 * ms, 3000 * ms, 4000 * ms, 5000 * ms},
	}, {
		name: "turn due at the deadline", policies: perSecond,
		requests: []request{{}, {deadline: 1000 * ms}, {}}, want: []time.Duration{0, 1000 * ms, 2000 * ms},
	}, {
		name: "deadline before the turn", policies: perSecond,
		requests: []request{{}, {deadline: 999 * ms}, {at: 100 * ms}}, want: []time.Duration{0, gone, 1000 * ms},
	}, {
		name: "two queues, last leaves", policies: []headgate.Policy{queue("1/1s queue 9", "2/1s queue 9")}, together: true,
		requests: []request{{}, {leaves: 500 * ms}, {at: 600 * ms}}, want: []time.Duration{0, gone, 2000 * ms},
	}, {
		name:     "bucket and queue, middle leaves",
		policies: []headgate.Policy{policy(headgate.TokenBucket, "bucket", "5/1h"), queue("1/1s queue 9")},
		requests: []request{{}, {leaves: 500 * ms}, {at: 100 * ms}, {at: 600 * ms}},
		want:     []time.Duration{0, gone, 2000 * ms, 3000 * ms}, left: []int64{2},
	}, {
		name:     "bucket and queue, last leaves",
		policies: []headgate.Policy{policy(headgate.TokenBucket, "bucket", "5/1h"), queue("1/1s queue 9")}, together: true,
		requests: []request{{}, {leaves: 500 * ms}, {at: 600 * ms}}, want: []time.Duration{0, gone, 2000 * ms}, left: []int64{3},
	}, {
		name:     "window and queue, leaves in the window",
		policies: []headgate.Policy{policy(headgate.FixedWindow, "window", "9/1h"), queue("1/2s queue 9")},
		requests: []request{{}, {leaves: 1500 * ms}, {at: 1200 * ms}}, want: []time.Duration{0, gone, 4000 * ms}, left: []int64{7},
	}, {
		name:     "window and queue, leaves when the window has ended",
		policies: []headgate.Policy{policy(headgate.FixedWindow, "window", "9/1s"), queue("1/2s queue 9")},
		requests: []request{{}, {leaves: 1500 * ms}, {at: 1200 * ms}}, want: []time.Duration{0, gone, 4000 * ms}, left: []int64{8},
	}, {
		name:     "bucket and queue, leaves when the bucket has refilled",
		policies: []headgate.Policy{policy(headgate.TokenBucket, "bucket", "9/9s"), queue("1/9s queue 9")},
		requests: []request{{}, {leaves: 3300 * ms}, {at: 3000 * ms}}, want: []time.Duration{0, gone, 18_000 * ms}, left: []int64{8},
	}, {
		name:     "two limits without a queue",
		policies: []headgate.Policy{policy(headgate.TokenBucket, "two", "5/1h", "1/2h")}, together: true,
		requests: []request{{}, {leaves: 100 * ms}}, want: []time.Duration{0, gone}, left: []int64{0},
	}, {
		name:     "two policies without a queue",
		policies: []headgate.Policy{policy(headgate.TokenBucket, "bucket", "5/1h"), policy(headgate.FixedWindow, "window", "1/1h")},
		requests: []request{{}, {leaves: 100 * ms}}, want: []time.Duration{0, gone}, left: []int64{4, 0},
	}, {
		name: "fail local, store available, last leaves", fallback: true,
		policies: []headgate.Policy{on(headgate.FailLocal, queue("2/1s queue 5"))},
		requests: []request{{}, {leaves: 50 * ms}, {at: 50 * ms}}, want: []time.Duration{0, gone, 500 * ms},
	}, {
		name: "fail local, store unavailable, last leaves", fallback: true, isDown: true, up: time.Hour,
		policies: []headgate.Policy{on(headgate.FailLocal, queue("2/1s queue 9"))},
		requests: []request{{at: 1 * ms}, {at: 1 * ms, leaves: 500 * ms}, {at: 601 * ms}}, want: []time.Duration{1 * ms, gone, 1001 * ms},
	}, {
		name: "fail local, store recovers before the client leaves", fallback: true, isDown: true, up: 300 * ms,
		policies: []headgate.Policy{
			on(headgate.FailLocal, policy(headgate.TokenBucket, "bucket", "8/1h")), on(headgate.FailLocal, queue("2/1s queue 9")),
		},
		requests: []request{{at: 1 * ms}, {at: 1 * ms, leaves: 500 * ms}, {at: 400 * ms}},
		want:     []time.Duration{1 * ms, gone, 400 * ms}, left: []int64{7},
	}, {
		name: "fail open, store unavailable", fallback: true, isDown: true, up: 300 * ms,
		policies: []headgate.Policy{on(headgate.FailOpen, queue("1/1s queue 9"))},
		requests: []request{{at: 1 * ms}, {at: 1 * ms}, {at: 400 * ms}, {at: 400 * ms}},
		want:     []time.Duration{1 * ms, 1 * ms, 400 * ms, 1400 * ms},
	}, {
		name: "fail closed, store unavailable", fallback: true, isDown: true, up: 300 * ms,
		policies: []headgate.Policy{on(headgate.FailClosed, queue("1/1s queue 9"))},
		requests: []request{{at: 1 * ms}, {at: 1 * ms}, {at: 400 * ms}, {at: 400 * ms}},
		want:     []time.Duration{gone, gone, 400 * ms, 1400 * ms},
	}, {
		name: "store unavailable when the client leaves", fallback: true, isDown: true, down: 400 * ms, up: 550 * ms,
		policies: []headgate.Policy{on(headgate.FailLocal, queue("1/1s queue 9"))},
		requests: []request{{}, {leaves: 500 * ms}, {at: 600 * ms}}, want: []time.Duration{0, gone, 2000 * ms},
	}}
}
