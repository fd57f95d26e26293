package memstore_test

import (
	"bytes"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/memstore"
)

// A snapshot contains the charges of open holds, but not the holds.
func TestSnapshotOfHolds(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, a := range algo.Rates() {
		if !a.Name.CanHold() {
			continue
		}
		t.Run(string(a.Name), func(t *testing.T) {
			t.Parallel()
			limiter := func(s headgate.Store) *headgate.Limiter {
				policy := headgate.MustNamedPolicy("p", "10/1h")
				policy.Algorithm = a.Name
				l, err := headgate.New(s, policy, nil)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			store := memstore.New(nil)
			l := limiter(store)
			h, err := l.HoldAt(t.Context(), noon, "key", 4, time.Minute)
			if err != nil || !h.OK() {
				t.Fatal(h, err)
			}
			var text bytes.Buffer
			if err := store.SnapshotAt(&text, noon); err != nil {
				t.Fatal(err)
			}
			restored, err := memstore.Restore(&text, nil)
			if err != nil {
				t.Fatal(err)
			}
			l = limiter(restored)
			check := headgate.Check{Limiter: l, Key: "key", Cost: 4}
			if _, err := headgate.ResumeHold(h.ID(), h.ExpiresAt(), check).CommitAt(t.Context(), noon, 1); !errors.Is(err, headgate.ErrUnknownHold) {
				t.Errorf("commit after the restore: got error %v want ErrUnknownHold", err)
			}
			if d, err := l.AllowAt(t.Context(), noon, "key", 1); err != nil || d.Remaining != 5 {
				t.Errorf("after the restore: got %+v, %v, want 5 remaining", d, err)
			}
		})
	}
}

// After an extension, the error of a late commit is that of the new deadline.
func TestExpiryAfterExtension(t *testing.T) {
	t.Parallel()
	l, err := headgate.New(memstore.New(nil), headgate.MustPolicy("10/1h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name       string
		ttl, later time.Duration
		reset      bool
		want       error
	}{
		{"shorter", time.Hour, time.Minute, false, headgate.ErrExpiredHold},
		{"longer, and reset", time.Second, time.Hour, true, headgate.ErrUnknownHold},
	} {
		h, err := l.HoldAt(t.Context(), noon, tt.name, 1, tt.ttl)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.ExtendAt(t.Context(), noon, tt.later); err != nil {
			t.Fatal(err)
		}
		if tt.reset {
			if _, err := l.ResetAt(t.Context(), noon, tt.name); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.CommitAt(t.Context(), noon.Add(2*time.Minute), 1); !errors.Is(err, tt.want) {
			t.Errorf("%s: got error %v want %v", tt.name, err, tt.want)
		}
	}
}

// One call may extend the holds of many keys. It holds the locks of all of them, so its
// time must not grow with the cube of their number: the test would not end.
func TestExtendManyKeys(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	bound, err := store.Bind(headgate.Rule{Scope: "p", Limit: headgate.MustParseLimit("10/1h")})
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]headgate.HoldOp, 5000)
	for i := range ops {
		ops[i] = headgate.HoldOp{Op: headgate.Op{Bound: bound, Key: strconv.Itoa(i), Cost: 1}, ID: headgate.NewHoldID()}
	}
	results := make([]headgate.HoldResult, len(ops))
	if _, err := store.ApplyHolds(t.Context(), headgate.StoreClock, headgate.ExtendHold, time.Minute, ops, results); err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if !errors.Is(results[i].Err, headgate.ErrUnknownHold) {
			t.Fatalf("op %d: got %v want ErrUnknownHold", i, results[i].Err)
		}
	}
}
