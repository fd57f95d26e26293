package redisstore_test

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// largeCall is the number of keys or holds in one script call. A Lua function has at most
// 8,000 results, and the call has another key for the ended holds of each key.
const largeCall = 8200

func openLarge(t *testing.T) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open("redis://"+testserver.Redis(t).Addr(), &redisstore.Options{Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// largeOps returns n ops, each with a hold of its own, on the given number of keys.
func largeOps(t *testing.T, s *redisstore.Store, a headgate.Algorithm, keys, n int) []headgate.HoldOp {
	t.Helper()
	b, err := s.Bind(headgate.Rule{
		Scope: "s" + strconv.Itoa(keys), Name: "s", Limit: headgate.MustParseLimit("100000/1h"), Algorithm: a,
		Holds: headgate.HoldSettings{MaxOpen: headgate.MaxOpenHolds},
	})
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]headgate.HoldOp, n)
	for i := range ops {
		ops[i] = headgate.HoldOp{Op: headgate.Op{Bound: b, Key: strconv.Itoa(i % keys), Cost: 2}}
		ops[i].ID = headgate.HoldID{byte(i), byte(i >> 8)}
	}
	return ops
}

// One call opens, extends, commits and debits thousands of holds, on as many keys or on
// one key.
func TestThousandsOfHoldsInOneCall(t *testing.T) {
	if testing.Short() {
		t.Skip("the long tests execute large calls")
	}
	t.Parallel()
	s := openLarge(t)
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
		for _, keys := range []int{1, largeCall} {
			ops, n := largeOps(t, s, a, keys, largeCall), largeCall
			if keys == 1 {
				n = 1000 // each commit searches among the holds of its key
			}
			ops = ops[:n]
			results := make([]headgate.HoldResult, n)
			for _, verb := range []headgate.HoldVerb{headgate.OpenHold, headgate.OpenHold, headgate.ExtendHold, headgate.CommitHold, headgate.CommitHold, headgate.Debit, headgate.TakeUpTo} {
				if _, err := s.ApplyHolds(t.Context(), testInstant, verb, time.Minute, ops, results); err != nil {
					t.Fatalf("%s, %d keys: %s: %v", a, keys, verb, err)
				}
			}
			want := 100000 - 3*2*int64(n/keys) // committed, debited and taken
			for i, r := range results {
				if r.Remaining != want && keys > 1 || r.Err != nil {
					t.Fatalf("%s, %d keys: op %d: got %+v want %d remaining", a, keys, i+1, r, want)
				}
			}
			if r := results[n-1]; r.Remaining != want {
				t.Errorf("%s, %d keys: got %+v want %d remaining", a, keys, r, want)
			}
		}
	}
}

func TestTooManyKeysInOneCall(t *testing.T) {
	t.Parallel()
	s := openLarge(t)
	ops := largeOps(t, s, headgate.TokenBucket, math.MaxUint16+1, math.MaxUint16+1)
	_, err := s.ApplyHolds(t.Context(), testInstant, headgate.Debit, 0, ops, make([]headgate.HoldResult, len(ops)))
	if !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("holds: got error %v want ErrInvalidPolicy", err)
	}
	takes := make([]headgate.Op, len(ops))
	for i := range ops {
		takes[i] = ops[i].Op
	}
	if err := s.ApplyAll(t.Context(), testInstant, takes, false, make([]headgate.Decision, len(takes))); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("takes: got error %v want ErrInvalidPolicy", err)
	}
}
