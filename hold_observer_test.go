package headgate_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// Every operation of a hold is one event for each check.
func TestHoldEvents(t *testing.T) {
	t.Parallel()
	recorder := &eventRecorder{}
	store := memstore.New(nil)
	limiter := func(name, limit string) *headgate.Limiter {
		l, err := headgate.New(store, headgate.MustNamedPolicy(name, limit), &headgate.Options{Observer: recorder})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	tokens, requests := limiter("tokens", "10/1h"), limiter("requests", "5/1h")
	require := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, e := range recorder.take() {
			got = append(got, fmt.Sprintf("%s %s %d: %t %d", e.Policy, e.Verb, e.Cost, e.Decision.Allowed, e.Decision.Remaining))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got events %q want %q", what, got, want)
		}
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ctx := t.Context()

	h, err := tokens.HoldAt(ctx, noon, "key", 4, time.Minute)
	require("hold", "tokens hold 4: true 6")
	_, extend := h.ExtendAt(ctx, noon, time.Minute)
	require("extend", "tokens extend 4: true 6")
	_, commit := h.CommitAt(ctx, noon, 1)
	require("commit", "tokens commit 1: true 9")
	_, debit := tokens.DebitAt(ctx, noon, "key", 2)
	require("debit", "tokens debit 2: true 7")
	_, _, upTo := tokens.TakeUpToAt(ctx, noon, "key", 9)
	require("take up to", "tokens take_up_to 9: true 0")
	checks := []headgate.Check{{Limiter: tokens, Key: "all", Cost: 3}, {Limiter: requests, Key: "all", Cost: 1}}
	all, holdAll := headgate.HoldAllAt(ctx, noon, &headgate.HoldOptions{TTL: time.Minute}, checks...)
	require("hold of two", "tokens hold 3: true 7", "requests hold 1: true 4")
	_, cancel := all.CancelAt(ctx, noon)
	require("cancel of two", "tokens commit 0: true 10", "requests commit 0: true 5")
	_, debitAll := headgate.DebitAllAt(ctx, noon, checks...)
	require("debit of two", "tokens debit 3: true 7", "requests debit 1: true 4")
	_, _, upToAll := headgate.TakeUpToAllAt(ctx, noon, checks...)
	require("take up to of two", "tokens take_up_to 3: true 6", "requests take_up_to 1: true 3")
	if err := errors.Join(err, extend, commit, debit, upTo, holdAll, cancel, debitAll, upToAll); err != nil {
		t.Error(err)
	}
	unknown := headgate.ResumeHold(headgate.HoldID{1}, noon.Add(time.Hour), checks...)
	if _, err := unknown.CommitAt(ctx, noon, 1, 1); !errors.Is(err, headgate.ErrUnknownHold) {
		t.Errorf("commit of an unknown hold: got error %v want ErrUnknownHold", err)
	}
	for _, e := range recorder.take() {
		if !errors.Is(e.Err, headgate.ErrUnknownHold) {
			t.Errorf("event of an unknown hold: got %+v want ErrUnknownHold", e)
		}
	}
}
