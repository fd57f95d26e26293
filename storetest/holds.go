package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

func holdChecks() []check {
	return []check{
		{name: "holds equal model", rule: "after a commit, decisions are as if the actual cost had been charged at the beginning", perAlgorithm: checkHolds},
		{name: "atomic holds", rule: "holds and commits of one key are atomic: the actual costs, plus units left, equal the limit", perAlgorithm: checkAtomicHolds},
		{name: "several holds in one call", rule: "one call opens, extends and commits several holds of a key, and takes as much as remains under several limits", perAlgorithm: checkSeveralHolds},
		{name: "each hold has a deadline", rule: "the units of each hold are released at its own deadline", perAlgorithm: checkSeparateDeadlines},
		{name: "deadlines are kept", rule: "further holds of a key do not change the deadline of a hold", perAlgorithm: checkDeadlinesAreKept},
		{name: "denied hold under a changed limit", rule: "a denied hold under a changed limit changes nothing that can be observed, under any limit", perAlgorithm: checkDeniedHoldUnderChangedLimit},
		{name: "nothing spent under a changed limit", rule: "an operation that spends no units, such as the commit of the amount, keeps what was spent under another limit", perAlgorithm: checkNothingSpentUnderChangedLimit},
		{name: "denied hold of one key", rule: "a denied hold with several checks of one key has the decision of each check", perAlgorithm: checkDeniedHoldOfOneKey},
		{name: "up to several times of one key", rule: "after a take of as much as remains, each result is a peek on the resulting state", perAlgorithm: checkUpToOfOneKey},
		{name: "conflict before too many holds", rule: "a hold that conflicts on one key and has no room on another is a conflict", perAlgorithm: checkConflictBeforeTooMany},
		{name: "hold of the largest costs", rule: "the costs of one key in a hold are added exactly, also if their sum is above 2^53 - 1", perAlgorithm: checkLargestCosts},
		{name: "repeated hold with another request", rule: "a repeated id with other keys or costs is a conflict and charges nothing; with the same ones it is replayed", perAlgorithm: checkHoldConflicts},
		{name: "repeated capped hold", rule: "a repeated request of a capped hold is recognized by its costs, also under a changed limit", perAlgorithm: checkCappedHolds},
		{name: "hold of one key under several limits", rule: "a hold of one key under several limits is an error and charges nothing", perAlgorithm: checkHoldOfVariants},
		{name: "records of ended holds", rule: "a key keeps as many ended holds as it may have open ones, those with the latest deadlines", perAlgorithm: checkEndedHolds},
		{name: "lists of holds", rule: "a list has the open holds and leases of a key with units and deadlines, in the order in which they were opened", perAlgorithm: checkHoldLists},
		{name: "hold errors", rule: "a hold that cannot be opened or ended is a typed error, and nothing is charged", perAlgorithm: checkHoldErrors},
	}
}

// hasHolds reports whether the store has holds under the algorithm a. If it has not, an
// attempt must return [headgate.ErrUnsupported].
func (ts *tester) hasHolds(a headgate.Algorithm) bool {
	if _, ok := ts.store.(headgate.HoldStore); ok && a.CanHold() && !slices.Contains(ts.options.WithoutHolds, a) {
		return true
	}
	l := ts.limiter(a, "5/1h")
	if _, err := l.HoldAt(background, start.Time(), "key", 1, time.Minute); !errors.Is(err, headgate.ErrUnsupported) {
		ts.failf("%s: hold: got error %v want ErrUnsupported", describe(l), err)
	}
	return false
}

// checkAtomicHolds lets 64 goroutines hold, commit and take units of one key at the same
// fixed instant. Each of them spends 7 units in the end.
func checkAtomicHolds(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	l := ts.limiter(a, "10000/1h")
	for round := range max(1, ts.options.Rounds/10) {
		key := fmt.Sprint("key ", round)
		ts.concurrently(func(int) error {
			for _, actual := range []int64{0, 3, 4} {
				h, err := l.HoldAt(background, start.Time(), key, 5, time.Minute)
				if err != nil {
					return err
				}
				if _, err := h.CommitAt(background, start.Time(), actual); err != nil {
					return err
				}
			}
			_, err := l.AllowAt(background, start.Time(), key, 0)
			return err
		})
		ts.mustRemain(l, start, key, 10_000-7*goroutines, "64 goroutines committed 7 units each")
	}
}
