package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// The mistakes that TestSuiteCatchesPlantedFaults plants.
const (
	readsAndWritesApart fault = "gives the lock away between reading and writing"
	refundsApart        fault = "gives the lock away in a refund"
	givesBack           fault = "charges several keys one after another, and gives back when one denies" // no mistake where it is said
	severalApart        fault = "gives the lock away between deciding and charging several"
	booksApart          fault = "gives the lock away in a booking"
	denialConsumes      fault = "a denial consumes"
	deniesPeeks         fault = "cost 0 is denied when nothing is left"
	peekSpends          fault = "a peek spends"
	peekRemembers       fault = "a peek drops what no longer counts at its instant"
	peekAlwaysAllows    fault = "a peek says yes to what a take denies"
	expiresEarly        fault = "a key is dropped 1 µs early"
	backwardsForgets    fault = "a clock that goes back makes the key new"
	countsOne           fault = "every cost counts as 1"
	refundForgets       fault = "a refund makes the key new"
	refundsNothing      fault = "a refund does nothing"
	refundsTwice        fault = "a refund gives back twice as much"
	resetsNothing       fault = "a reset does nothing"
	changeForgets       fault = "a changed limit makes the key new"
	joinsByColon        fault = "scope and key are joined by a colon"
	joinsByNothing      fault = "scope and key are joined by nothing"
	foldsCase           fault = "keys are folded to lower case"
	repairsText         fault = "invalid UTF-8 in keys is replaced"
	cutsAtNUL           fault = "keys end at NUL"
	trimsKeys           fault = "keys are trimmed"
	cutsLongKeys        fault = "keys are cut at 250 bytes"
	mergesAlgorithms    fault = "algorithms share state"
	partsAliases        fault = "an alias has a state of its own"
	oneTooMany          fault = "remaining is one too many"
	retryTooShort       fault = "retry_after is rounded down"
	retryTooLong        fault = "retry_after is 1 µs too long"
	neverWaits          fault = "never is not said"
	namesNobody         fault = "a denial does not say which limit denied"
	chargesInPart       fault = "what fits is charged although another limit denies"
	paysOnce            fault = "a key charged twice pays once"
	booksAnything       fault = "windows promise what is to come"
	ignoresLongest      fault = "a reservation ignores its longest delay"
	promisesEarly       fault = "a reservation's delay is rounded down"
	cancelsNothing      fault = "a cancellation gives nothing back"
	cancelsInFull       fault = "a cancellation gives back what others have booked behind it"
	cancelForgets       fault = "a cancellation makes the key new"
	spacesTooFar        fault = "spacing is longer than the time that units need"
	bindsAnything       fault = "a limit outside the domain is bound"
	spendsForCancelled  fault = "a call with a cancelled context spends and says that it did not"
	livesForEver        fault = "keys have no life"
	keepsLost           fault = "a lost life is not given again"
	livesInSeconds      fault = "lives are rounded down to seconds"
	livesTooLong        fault = "keys live ten years too long"
	keepsAsked          fault = "what was only asked for is kept"
	slotByBraces        fault = "a key is looked for by what stands between its braces"
	givesBackTooMuch    fault = "charges on several keys are given back twice when one denies"
	givesNothingBack    fault = "charges on several keys are not given back when one denies"
	clockFrom1970       fault = "the store's clock is at the epoch"
	answersWhenClosed   fault = "a closed store answers"
	closedOtherwise     fault = "a closed store answers another error"
)

// caughtBy says which checks must fail for each fault. Others may fail too.
var caughtBy = map[fault][]string{
	readsAndWritesApart: {"atomic", "atomic give and take"},
	refundsApart:        {"atomic give and take"},
	severalApart:        {"several at once"},
	booksApart:          {"atomic bookings"},
	denialConsumes:      {"rule1", "model"},
	deniesPeeks:         {"rule2", "model"},
	peekSpends:          {"rule2", "model"},
	peekRemembers:       {"rule2", "model"},
	peekAlwaysAllows:    {"rule2", "model"},
	expiresEarly:        {"rule3", "model"},
	backwardsForgets:    {"rule4", "model"},
	countsOne:           {"rule5", "model"},
	refundForgets:       {"rule6", "model", "policy of several"},
	refundsNothing:      {"rule6", "model", "policy of several"},
	refundsTwice:        {"rule6", "model"},
	resetsNothing:       {"reset", "model", "policy of several"},
	changeForgets:       {"rule7", "model"},
	joinsByColon:        {"scopes"},
	joinsByNothing:      {"scopes"},
	foldsCase:           {"hostile keys"},
	repairsText:         {"hostile keys"},
	cutsAtNUL:           {"hostile keys"},
	trimsKeys:           {"hostile keys"},
	cutsLongKeys:        {"hostile keys"},
	mergesAlgorithms:    {"policies"},
	partsAliases:        {"policies"},
	oneTooMany:          {"model"},
	retryTooShort:       {"model", "same key twice", "several answer"},
	retryTooLong:        {"model", "same key twice", "several answer"},
	neverWaits:          {"never", "model"},
	namesNobody:         {"several answer", "model"},
	chargesInPart:       {"all or none", "model", "same key twice"},
	paysOnce:            {"same key twice", "model"},
	booksAnything:       {"no bookings"},
	ignoresLongest:      {"reserve", "reserve honest"},
	promisesEarly:       {"reserve", "reserve honest"},
	cancelsNothing:      {"cancel"},
	cancelsInFull:       {"cancel behind"},
	cancelForgets:       {"cancel bounded", "cancel", "cancel behind"},
	spacesTooFar:        {"spacing"},
	bindsAnything:       {"bind"},
	spendsForCancelled:  {"cancelled context"},
	livesForEver:        {"lives", "lost lives", "short lives", "model"},
	keepsLost:           {"lost lives"},
	livesInSeconds:      {"short lives", "long enough"},
	livesTooLong:        {"long enough"},
	keepsAsked:          {"nothing kept"},
	slotByBraces:        {"hostile keys together", "hostile keys"},
	givesBackTooMuch:    {"several at once"},
	givesNothingBack:    {"all or none", "model"},
	clockFrom1970:       {"store clock"},
	answersWhenClosed:   {"closed"},
	closedOtherwise:     {"closed", "closed under load"},
}

func TestReferenceStorePasses(t *testing.T) {
	t.Parallel()
	Options{Decisions: 60_000, Rounds: 100}.Run(t, func(*testing.T) headgate.Store { return newReference(none) })
}

// TestReferenceStorePassesWithEveryOption has traces beside each other, and a server to look at.
func TestReferenceStorePassesWithEveryOption(t *testing.T) {
	t.Parallel()
	o, open := options(none)
	o.Decisions, o.Rounds, o.Parallelism, o.Seed = 30_000, 10, 16, 0
	o.Run(t, func(*testing.T) headgate.Store { return open() })
}

// TestStoreWithoutTransactionsPasses: what takes from one key after another and gives back is fine for one caller, and says so.
func TestStoreWithoutTransactionsPasses(t *testing.T) {
	t.Parallel()
	o, open := options(givesBack)
	o.Rounds, o.NonAtomic = 10, true
	o.Run(t, func(*testing.T) headgate.Store { return open() })
}

// options are short, and look at the server of the store opened last.
func options(f fault) (Options, func() *reference) {
	var store *reference
	return Options{
		Decisions: 20_000, Rounds: 40, Seed: 1, NonAtomic: f == givesBack || f == givesBackTooMuch || f == givesNothingBack,
		TTLs:      func() (map[string]time.Duration, error) { return store.lives() },
		RemoveTTL: func(id string) error { return store.persist(id) },
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
				if err := breaks(name, f); err == nil {
					t.Errorf("check %q passes a store in which %s", name, f)
				} else {
					t.Logf("check %q: %v", name, err)
				}
			}
		})
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

// breaks runs one check on stores with a fault and gives its first failure.
func breaks(name string, f fault) error {
	o, open := options(f)
	o = o.withDefaults()
	for _, c := range checks() {
		if c.name != name {
			continue
		}
		if c.judge != nil {
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
