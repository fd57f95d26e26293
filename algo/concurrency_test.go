package algo_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// TestConcurrencyWaitsDependOnDeadlines checks a timeline that was calculated by hand:
// two slots, of which one is held until second 10 and one until second 6.
func TestConcurrencyWaitsDependOnDeadlines(t *testing.T) {
	k := newSlots(t, "2 concurrent")
	for i, c := range []struct {
		step holdStep
		want headgate.Decision
	}{
		{holdStep{verb: "hold", t: 0, id: "a", n: 1, deadline: 10}, headgate.Decision{Allowed: true, Limit: 2, Remaining: 1, ResetAfter: 10}},
		{holdStep{verb: "hold", t: 1, id: "b", n: 1, deadline: 6}, headgate.Decision{Allowed: true, Limit: 2, ResetAfter: 9}},
		{holdStep{verb: "hold", t: 2, id: "c", n: 1, deadline: 9}, headgate.Decision{Limit: 2, RetryAfter: 4, ResetAfter: 8}},
		{holdStep{verb: "peek", t: 2, n: 2}, headgate.Decision{Limit: 2, RetryAfter: 8, ResetAfter: 8}},
		{holdStep{verb: "peek", t: 2, n: 3}, headgate.Decision{Limit: 2, Never: true, ResetAfter: 8}},
		{holdStep{verb: "extend", t: 5, id: "b", deadline: 20}, headgate.Decision{Allowed: true, Limit: 2, ResetAfter: 15}},
		{holdStep{verb: "peek", t: 6, n: 1}, headgate.Decision{Limit: 2, RetryAfter: 4, ResetAfter: 14}},
		{holdStep{verb: "peek", t: 10, n: 1}, headgate.Decision{Allowed: true, Limit: 2, Remaining: 1, ResetAfter: 10}},
		{holdStep{verb: "commit", t: 11, id: "b", n: 7}, headgate.Decision{Allowed: true, Limit: 2, Remaining: 2}},
	} {
		c.want.RetryAfter, c.want.ResetAfter = c.want.RetryAfter*1000, c.want.ResetAfter*1000 // µs in ns
		if got := k.run(&c.step, false).decision; !equal(got, c.want) {
			t.Errorf("step %d: %+v\n got %+v\nwant %+v", i+1, c.step, got, c.want)
		}
	}
	if len(k.ledger.Holds) != 0 || k.state != (algo.State{}) {
		t.Errorf("got holds %v and state %v, want an unused key", k.ledger.Holds, k.state)
	}
}

func equal(a, b headgate.Decision) bool {
	return a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining && a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter
}

func newSlots(t *testing.T, limit string) *holdKey {
	t.Helper()
	a, err := algo.Named(headgate.Concurrency)
	if err != nil {
		t.Fatal(err)
	}
	k := newHoldKey(a, headgate.MustParseLimit(limit))
	k.release = true
	return k
}

// A clock that goes back does not revive a hold that has expired.
func TestConcurrencyClockGoingBackRevivesNoHold(t *testing.T) {
	k := newSlots(t, "1 concurrent")
	k.run(&holdStep{verb: "hold", t: 100, id: "a", n: 1, deadline: 200}, false)
	if !k.run(&holdStep{verb: "hold", t: 200, id: "b", n: 1, deadline: 300}, false).decision.Allowed {
		t.Fatal("a hold at the deadline of the only other: got a denial")
	}
	for _, verb := range []string{"extend", "commit"} {
		out := k.run(&holdStep{verb: verb, t: 150, id: "a", deadline: 900}, false)
		if out.open != 1 || out.decision.Remaining != 0 || out.decision.ResetAfter.Microseconds() != 150 {
			t.Errorf("%s of the expired hold before its deadline: got %+v, want the other hold unchanged", verb, out)
		}
	}
	if k.run(&holdStep{verb: "hold", t: 150, id: "c", n: 1, deadline: 900}, false).decision.Allowed {
		t.Error("the clock went back and the slot is taken: got a hold")
	}
}

// A lower limit keeps the slots that are taken. RetryAfter lasts until so many holds have
// expired that one more is within the new limit.
func TestConcurrencyLowerLimit(t *testing.T) {
	k := newSlots(t, "3 concurrent")
	for i, id := range []string{"a", "b", "c"} {
		k.run(&holdStep{verb: "hold", t: 0, id: id, n: 1, deadline: int64(10 * (i + 1))}, false)
	}
	k.bind(mustNamed(t, headgate.Concurrency), headgate.MustParseLimit("1 concurrent"))
	d := k.run(&holdStep{verb: "peek", t: 0, n: 1}, false).decision
	if d.Allowed || d.Remaining != 0 || d.RetryAfter.Microseconds() != 30 {
		t.Errorf("3 slots of 1 are taken: got %+v, want a denial for 30 µs", d)
	}
}

func mustNamed(t *testing.T, name headgate.Algorithm) algo.Algorithm {
	t.Helper()
	a, err := algo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The limit of another kind is an error that contains what to write.
func TestConcurrencyLimitOfAnotherKind(t *testing.T) {
	for _, c := range []struct {
		algorithm headgate.Algorithm
		limit     string
		want      string
	}{
		{headgate.Concurrency, "10/s", "limit is 10/s; must be a number of concurrent units under concurrency; write 10 concurrent"},
		{headgate.Concurrency, "10/month", "write 10 concurrent"},
		{headgate.Concurrency, "10/s burst 20", "write 10 concurrent"},
		{headgate.TokenBucket, "16 concurrent", "limit is 16 concurrent; must be a rate under token_bucket, such as 16/s; a limit of concurrent units requires concurrency"},
		{headgate.CalendarWindow, "16 concurrent", "must be a rate under calendar_window"},
		{headgate.SlidingLog, "16 concurrent", "must be a rate under sliding_log"},
	} {
		err := mustNamed(t, c.algorithm).Check(headgate.MustParseLimit(c.limit))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s under %s: got error %v want %q", c.limit, c.algorithm, err, c.want)
		}
	}
}

// concurrencyMutations are injected bugs in the Lua text of concurrency and of the
// ledger.
var concurrencyMutations = []struct{ mistake, old, new string }{
	{"off by one at the limit", "n > w.limit - s.b", "n >= w.limit - s.b"},
	{"one slot for any amount", "b = s.b + n", "b = s.b + 1"},
	{"never at the limit", "asked > w.limit,", "asked >= w.limit,"},
	{"one slot released for any amount", "s.b - min(n, s.b)", "s.b - min(1, s.b)"},
	{"the actual number stays taken", "    actual = 0\n", ""},
	{"one hold too few in retry_after", "if n <= 0 then\n      break", "if n <= 1 then\n      break"},
	{"the latest deadline first", "one.deadline < other.deadline", "one.deadline > other.deadline"},
	{"reset_after of a hold without units", "list[i].units > 0", "list[i].units >= 0"},
	{"reset_after of the last hold in the list", "last = max(last, list[i].deadline)", "last = list[i].deadline"},
	{"retry_after ignores free slots", "asked - (l.w.limit - l.s.b)", "asked"},
	{"an expired hold stays", "return hold.deadline <= t\n", "return hold.deadline < t\n"},
}

// The page on testing has the number of injected bugs.
func TestPageHasNumberOfMutations(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/internals/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(" %d injected faults in Lua", len(mutations)+len(concurrencyMutations)+len(ledgerMutations)); !strings.Contains(string(page), want) {
		t.Errorf("docs/internals/testing.md does not have the text %q", want)
	}
}

// TestConcurrencyComparisonDetectsMutations checks that the comparison of the two
// implementations finds injected bugs.
func TestConcurrencyComparisonDetectsMutations(t *testing.T) {
	a := mustNamed(t, headgate.Concurrency)
	for i, m := range concurrencyMutations {
		t.Run(m.mistake, func(t *testing.T) {
			t.Parallel()
			text := luaHoldsText(a)
			if got := strings.Count(text, m.old); got != 1 {
				t.Fatalf("%q stands %d times in the text, want once", m.old, got)
			}
			mustDetect(t, a, strings.Replace(text, m.old, m.new, 1), uint64(950+i))
		})
	}
}
