package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// T13: clients that always send new limits must not fill the memory with rules.
func TestInlineRulesBounded(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	e, err := New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	var a Answer
	take := func(limit string, want int64) {
		t.Helper()
		if err := e.DecideAt(t.Context(), 0, headgate.Take, []Check{{Limit: limit, Algorithm: "fixed_window", Key: "k", Cost: 1}}, &a); err != nil {
			t.Fatal(err)
		}
		if a.Remaining != want {
			t.Fatalf("%.20q: %d remaining, want %d", limit, a.Remaining, want)
		}
	}
	take("100000/1h", 99_999)
	for i := range 3 * maxInlineRules {
		take(fmt.Sprintf("%d/1d", 1_000_000+i), int64(1_000_000+i-1-i))
		if n := e.ActiveConfig().inlineByText.Len(); n > maxInlineRules {
			t.Fatalf("after %d limits %d rules are kept, want at most %d", i+1, n, maxInlineRules)
		}
	}
	take("100000/1h", 99_998) // its rule was dropped and bound again; its state was kept
	kept := e.ActiveConfig().inlineByText.Len()
	take("100000/1h"+strings.Repeat(" ", 60_000), 99_997)
	if got := e.ActiveConfig().inlineByText.Len(); got != kept {
		t.Errorf("a limit of 60 kB is kept: %d rules, want %d", got, kept)
	}
}

// The rule that an answer remembers is not used for another engine, another configuration
// with other rules, or a limit that differs in any field.
func TestRecentRuleInvalidated(t *testing.T) {
	engines := make([]*Engine, 2)
	for i := range engines {
		store := memstore.New(nil)
		defer store.Close()
		var err error
		if engines[i], err = New(store, nil); err != nil {
			t.Fatal(err)
		}
	}
	var a Answer
	take := func(e *Engine, own InlineLimit, want int64) *Rule {
		t.Helper()
		if err := e.DecideAt(t.Context(), 0, headgate.Take, []Check{{Inline: &own, Key: "k", Cost: 1}}, &a); err != nil {
			t.Fatal(err)
		}
		if a.Remaining != want {
			t.Errorf("%+v: %d remaining, want %d", own, a.Remaining, want)
		}
		if kept, _ := e.ActiveConfig().inlineByValue.Get(own); kept != a.Rules[0] {
			t.Errorf("%+v: the rule is not the snapshot's", own)
		}
		return a.Rules[0]
	}
	own := InlineLimit{Scope: "s", Limit: headgate.MustParseLimit("10/1h")}
	first := take(engines[0], own, 9)
	take(engines[1], own, 9)
	if take(engines[0], own, 8) != first {
		t.Error("the same limit has two rules")
	}
	for _, e := range engines {
		if err := e.Apply(&Options{MaxChecks: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if take(engines[0], own, 7) != first {
		t.Error("a snapshot that shares the last one's rules has others")
	}
	if err := engines[0].Apply(&Options{OnStoreError: headgate.FailOpen}); err != nil {
		t.Fatal(err)
	}
	if take(engines[0], own, 6) == first {
		t.Error("a snapshot with other terms has the last one's rule")
	}
	larger := own
	larger.Limit.Burst = 20
	take(engines[0], larger, 15)
	larger.Scope = "other"
	take(engines[0], larger, 19)
	larger.Algorithm = headgate.FixedWindow
	larger.Limit.Burst = 0
	take(engines[0], larger, 9)
	larger.Name = "named"
	take(engines[0], larger, 8)
}
