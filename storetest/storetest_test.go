package storetest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// These are the faults that TestSuiteCatchesPlantedFaults plants.
const (
	readWriteNotAtomic fault = "a take is not atomic"
	refundNotAtomic    fault = "a refund is not atomic"
	// This one is correct if Options.NonAtomic is set.
	takesOneByOne          fault = "several keys are taken from one after another, with a refund if one denies"
	multiNotAtomic         fault = "a request with several limits is not atomic"
	reserveNotAtomic       fault = "a reservation is not atomic"
	denialConsumes         fault = "a denial spends units"
	denialConverts         fault = "a denial under a changed limit reduces what was spent to the new limit"
	denialShortensTTL      fault = "a denial under a changed limit sets the TTL of that limit"
	deniesPeeks            fault = "cost 0 is denied if nothing is left"
	peekSpends             fault = "a peek spends"
	peekDropsExpired       fault = "a peek removes units that no longer count at its instant"
	peekAlwaysAllows       fault = "a peek allows a request that a take denies"
	expiresEarly           fault = "a key expires 1 µs early"
	clockBackwardsForgets  fault = "a clock that goes backwards resets the key"
	countsOne              fault = "every cost counts as 1"
	refundForgets          fault = "a refund resets the key"
	refundsNothing         fault = "a refund does nothing"
	refundsTwice           fault = "a refund returns twice its units"
	resetsNothing          fault = "a reset does nothing"
	limitChangeForgets     fault = "a changed limit resets the key"
	joinsByColon           fault = "scope and key are joined by a colon"
	joinsByNothing         fault = "scope and key are joined without a separator"
	foldsCase              fault = "keys are folded to lower case"
	repairsText            fault = "invalid UTF-8 in keys is replaced"
	cutsAtNUL              fault = "keys are cut at NUL"
	trimsKeys              fault = "keys are trimmed"
	cutsLongKeys           fault = "keys are cut at 250 bytes"
	mergesAlgorithms       fault = "algorithms share state"
	separatesAliases       fault = "an alias has its own state"
	remainingTooHigh       fault = "remaining is one too high"
	retryTooShort          fault = "retry_after is rounded down"
	retryTooLong           fault = "retry_after is 1 µs too long"
	neverNotSet            fault = "never is not set"
	deniedByEmpty          fault = "denied_by is empty"
	takesPartially         fault = "limits that allow are spent from although another limit denies"
	sameKeyTakenOnce       fault = "a key that occurs twice is spent from once"
	windowsReserve         fault = "window algorithms accept reservations"
	ignoresMaxDelay        fault = "a reservation ignores its maximum delay"
	delayTooShort          fault = "a reservation's delay is rounded down"
	cancelNothing          fault = "a cancellation refunds nothing"
	cancelRefundsLater     fault = "a cancellation changes later reservations"
	cancelForgets          fault = "a cancellation resets the key"
	spacingTooLong         fault = "Spacing is longer than the time that units need"
	bindsAnything          fault = "Bind accepts an invalid limit"
	cancelledContextSpends fault = "a call with a cancelled context spends and returns an error"
	ttlMissing             fault = "keys have no TTL"
	ttlNotRestored         fault = "a missing TTL is not set again"
	ttlInSeconds           fault = "TTLs are rounded down to seconds"
	ttlTooLong             fault = "TTLs are ten years too long"
	peekStoresKey          fault = "a peek stores the key"
	slotByBraces           fault = "only the text between a key's braces identifies it"
	refundsTakenTwice      fault = "takes from several keys are refunded twice if one denies"
	refundsNothingTaken    fault = "takes from several keys are not refunded if one denies"
	clockFrom1970          fault = "the store's clock is at the Unix epoch"
	closedStoreDecides     fault = "a closed store decides"
	closedWrongError       fault = "a closed store returns another error"
	holdsRefund            fault = "a commit refunds the difference"
	holdsLeak              fault = "a commit refunds nothing"
	slotsAreCounted        fault = "slots are a counter that holds increase and commits decrease"
	leasesRefill           fault = "a lease is a take, whose units refill before it ends"
	listsKeepEnded         fault = "a list of holds contains those that have ended"
)

// caughtBy lists the checks that must fail for each fault. Others may fail, too.
var caughtBy = map[fault][]string{
	readWriteNotAtomic:     {"atomic takes", "atomic refunds"},
	refundNotAtomic:        {"atomic refunds"},
	multiNotAtomic:         {"concurrent requests"},
	reserveNotAtomic:       {"atomic reservations"},
	denialConsumes:         {"denial", "decisions equal model"},
	denialConverts:         {"denial under a changed limit", "decisions equal model"},
	denialShortensTTL:      {"denial under a changed limit"},
	deniesPeeks:            {"peek", "decisions equal model"},
	peekSpends:             {"peek", "decisions equal model"},
	peekDropsExpired:       {"peek", "decisions equal model"},
	peekAlwaysAllows:       {"peek", "decisions equal model"},
	expiresEarly:           {"recovered key", "decisions equal model"},
	clockBackwardsForgets:  {"clock backwards", "decisions equal model"},
	countsOne:              {"costs add up", "decisions equal model"},
	refundForgets:          {"refund", "decisions equal model", "policy with several limits"},
	refundsNothing:         {"refund", "decisions equal model", "policy with several limits"},
	refundsTwice:           {"refund", "decisions equal model"},
	resetsNothing:          {"reset", "decisions equal model", "policy with several limits"},
	limitChangeForgets:     {"changed limit", "decisions equal model"},
	joinsByColon:           {"scope and key are separate"},
	joinsByNothing:         {"scope and key are separate"},
	foldsCase:              {"hostile keys"},
	repairsText:            {"hostile keys"},
	cutsAtNUL:              {"hostile keys"},
	trimsKeys:              {"hostile keys"},
	cutsLongKeys:           {"hostile keys"},
	mergesAlgorithms:       {"policies share state by name"},
	separatesAliases:       {"policies share state by name"},
	remainingTooHigh:       {"decisions equal model"},
	retryTooShort:          {"decisions equal model", "same key twice", "combined decision"},
	retryTooLong:           {"decisions equal model", "same key twice", "combined decision"},
	neverNotSet:            {"never", "decisions equal model"},
	deniedByEmpty:          {"combined decision", "decisions equal model"},
	takesPartially:         {"all or nothing", "decisions equal model", "same key twice"},
	sameKeyTakenOnce:       {"same key twice", "decisions equal model"},
	windowsReserve:         {"reserve unsupported"},
	ignoresMaxDelay:        {"reserve", "reserve delay"},
	delayTooShort:          {"reserve", "reserve delay"},
	cancelNothing:          {"cancel"},
	cancelRefundsLater:     {"cancel keeps later reservations"},
	cancelForgets:          {"cancel refunds at most its units", "cancel", "cancel keeps later reservations"},
	spacingTooLong:         {"spacing"},
	bindsAnything:          {"bind errors"},
	cancelledContextSpends: {"cancelled context"},
	ttlMissing:             {"ttl set", "ttl restored", "ttl not rounded to zero", "decisions equal model"},
	ttlNotRestored:         {"ttl restored"},
	ttlInSeconds:           {"ttl not rounded to zero", "ttl duration"},
	ttlTooLong:             {"ttl duration"},
	peekStoresKey:          {"nothing stored"},
	slotByBraces:           {"several hostile keys", "hostile keys"},
	refundsTakenTwice:      {"concurrent requests"},
	refundsNothingTaken:    {"all or nothing", "decisions equal model"},
	clockFrom1970:          {"store clock"},
	closedStoreDecides:     {"closed store"},
	closedWrongError:       {"closed store", "closed under load"},
	holdsRefund:            {"holds equal model", "hold errors", "repeated hold with another request", "repeated capped hold", "hold of one key under several limits", "records of ended holds", "hold of the largest costs", "denied hold under a changed limit", "each hold has a deadline", "deadlines are kept", "several holds in one call", "nothing spent under a changed limit", "denied hold of one key", "up to several times of one key", "conflict before too many holds"},
	holdsLeak:              {"holds equal model", "atomic holds", "atomic slots"},
	slotsAreCounted:        {"slots equal model", "slot errors", "slots are released", "extend many holds in one call", "hold of slots and a rate", "hold of the largest costs of slots", "each hold of slots has a deadline", "deadlines of slots are kept", "repeated hold of slots with another request", "repeated capped hold of slots", "hold of slots of one key under several limits", "records of ended holds of slots", "errors of holds of slots"},
	listsKeepEnded:         {"lists of holds"},
	leasesRefill:           {"leases equal model", "lease bound", "lease errors"},
}

func TestReferenceStorePasses(t *testing.T) {
	t.Parallel()
	Options{Decisions: 60_000, Rounds: 100}.Run(t, func(*testing.T) headgate.Store { return newDocumentReference(newReference(none)) })
}

// TestReferenceStorePassesWithAllOptions runs traces concurrently and inspects TTLs.
func TestReferenceStorePassesWithAllOptions(t *testing.T) {
	t.Parallel()
	o, open := options(none)
	o.Decisions, o.Rounds, o.Parallelism, o.Seed = 30_000, 10, 16, 0
	o.Run(t, func(*testing.T) headgate.Store { return open() })
}

// TestNonAtomicStorePasses checks that a store passes with NonAtomic if it takes from
// one key after another and refunds.
func TestNonAtomicStorePasses(t *testing.T) {
	t.Parallel()
	o, open := options(takesOneByOne)
	o.Rounds, o.NonAtomic = 10, true
	o.Run(t, func(*testing.T) headgate.Store { return open() })
}

// options returns options for a short run. They inspect the keys of the store that was
// opened last.
func options(f fault) (Options, func() *reference) {
	var store *reference
	return Options{
		Decisions: 20_000, Rounds: 40, Seed: 1, NonAtomic: f == takesOneByOne || f == refundsTakenTwice || f == refundsNothingTaken,
		TTLs:      func() (map[string]time.Duration, error) { return store.ttls() },
		RemoveTTL: func(id string) error { return store.removeTTL(id) },
	}, func() *reference {
		store = newReference(f)
		return store
	}
}

func TestSuiteCatchesPlantedFaults(t *testing.T) {
	t.Parallel()
	for f, names := range caughtBy {
		t.Run(string(f), func(t *testing.T) {
			for _, name := range names {
				if err := runCheck(name, f); err == nil {
					t.Errorf("check %q passes for a store with the fault %q", name, f)
				} else {
					t.Logf("check %q: %v", name, err)
				}
			}
		})
	}
}

// The page on testing has the number of faults.
func TestPageHasNumberOfFaults(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/internals/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("faults in Lua and %d in stores", len(caughtBy)); !strings.Contains(string(page), want) {
		t.Errorf("docs/internals/testing.md does not have the text %q", want)
	}
}

func TestEveryCheckCatchesAFault(t *testing.T) {
	t.Parallel()
	for _, c := range checks() {
		caught := false
		for _, names := range caughtBy {
			caught = caught || slices.Contains(names, c.name)
		}
		if !caught {
			t.Errorf("no planted fault is caught by check %q: %s", c.name, c.rule)
		}
	}
}

// runCheck runs one check on stores with a fault and returns its first failure.
func runCheck(name string, f fault) error {
	o, openReference := options(f)
	o = o.withDefaults()
	open := func() headgate.Store {
		r := openReference()
		switch f {
		case leasesRefill:
			holds := &naiveHolds{reference: r, holds: make(map[headgate.HoldID]int64)}
			return &naiveLeases{naiveHolds: holds, ends: make(map[headgate.HoldID]headgate.Instant)}
		case listsKeepEnded:
			return &naiveLists{naiveHolds: &naiveHolds{reference: r, holds: make(map[headgate.HoldID]int64)}}
		case holdsRefund, holdsLeak, slotsAreCounted:
			return &naiveHolds{reference: r, holds: make(map[headgate.HoldID]int64)}
		case documentsKeepVersion, documentsIgnoreVersion, documentsCutLarge, documentsAnyName, documentsAfterClose:
			return newDocumentReference(r)
		}
		return r
	}
	for _, c := range checks() {
		if c.name != name {
			continue
		}
		if c.once != nil {
			_, err := o.run(c, "", open())
			return err
		}
		for _, a := range o.algorithms() {
			if _, err := o.run(c, a, open()); err != nil {
				return err
			}
		}
	}
	return nil
}
