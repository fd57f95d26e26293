package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// T13: whoever sends ever new limits must not fill the memory with rules.
func TestRulesOfStrangersAreBounded(t *testing.T) {
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
	for i := range 3 * mostInline {
		take(fmt.Sprintf("%d/1d", 1_000_000+i), int64(1_000_000+i-1-i))
		if n := e.Snapshot().inline.Len(); n > mostInline {
			t.Fatalf("after %d limits %d rules are kept, want at most %d", i+1, n, mostInline)
		}
	}
	take("100000/1h", 99_998) // its rule was forgotten and made again; its state was not
	kept := e.Snapshot().inline.Len()
	take("100000/1h"+strings.Repeat(" ", 60_000), 99_997)
	if got := e.Snapshot().inline.Len(); got != kept {
		t.Errorf("a limit of 60 kB is kept: %d rules, want %d", got, kept)
	}
}
