package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// A caller learns that a slot of its hold is lost, although a rate of the same hold
// remains. The operation changes the rate all the same. A lost rate is an error only if
// the actual cost is above the amount, because the rate has not counted the difference.
func TestLostLimitOfHold(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, tt := range []struct {
		name        string
		reset       int // index of the limiter whose key is reset
		change      func(h *headgate.Hold) error
		want        error
		rate, slots int64 // remaining afterwards
	}{
		{"commit, slot lost", 1, func(h *headgate.Hold) error {
			_, err := h.CommitAt(ctx, holdNoon, 1, 1)
			return err
		}, headgate.ErrUnknownHold, 9, 2},
		{"extend, slot lost", 1, func(h *headgate.Hold) error {
			_, err := h.ExtendAt(ctx, holdNoon, time.Hour)
			return err
		}, headgate.ErrUnknownHold, 6, 2},
		{"extend all, slot lost", 1, func(h *headgate.Hold) error {
			results, err := headgate.ExtendAllAt(ctx, holdNoon, time.Hour, h)
			return errors.Join(err, results[0].Err)
		}, headgate.ErrUnknownHold, 6, 2},
		{"commit after the deadline, slot lost", 1, func(h *headgate.Hold) error {
			_, err := h.CommitAt(ctx, holdNoon.Add(time.Minute), 1, 1)
			return err
		}, headgate.ErrExpiredHold, 6, 2},
		{"commit, rate lost", 0, func(h *headgate.Hold) error {
			_, err := h.CommitAt(ctx, holdNoon, 1, 1)
			return err
		}, nil, 10, 2},
		{"commit above the amount, rate lost", 0, func(h *headgate.Hold) error {
			_, err := h.CommitAt(ctx, holdNoon, 7, 1)
			return err
		}, headgate.ErrUnknownHold, 10, 2},
		{"commit above the amount, slot lost", 1, func(h *headgate.Hold) error {
			_, err := h.CommitAt(ctx, holdNoon, 7, 1)
			return err
		}, headgate.ErrUnknownHold, 3, 2},
	} {
		store := memstore.New(nil)
		limiters := []*headgate.Limiter{newLimiter(t, store, "rate", nil, "10/1h"), newLimiter(t, store, "slots", nil, "2 concurrent")}
		h, err := headgate.HoldAllAt(ctx, holdNoon, &headgate.HoldOptions{TTL: time.Minute},
			headgate.Check{Limiter: limiters[0], Key: "k", Cost: 4}, headgate.Check{Limiter: limiters[1], Key: "k", Cost: 1})
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		if _, err := limiters[tt.reset].ResetAt(ctx, holdNoon, "k"); err != nil {
			t.Fatal(err)
		}
		if err := tt.change(h); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: got error %v want %v", tt.name, err, tt.want)
		}
		for i, want := range []int64{tt.rate, tt.slots} {
			if d, err := limiters[i].PeekAt(ctx, holdNoon, "k", 0); err != nil || d.Remaining != want {
				t.Errorf("%s: limiter %d: got %d remaining, error %v want %d", tt.name, i, d.Remaining, err, want)
			}
		}
	}
}

// A commit above the amount returns an error with the units that a rate without the hold
// has not counted, also if it is repeated. All other limits count them.
func TestUncountedUnitsOfHold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		id     string
		amount int64 // under hour and day
		actual []int64
		want   string  // part of the error; empty for none
		left   []int64 // remaining afterwards
	}{
		{"not above", "a", 4, []int64{4, 4, 5}, "", []int64{20, 96, 25}},
		{"above in other checks", "a", 4, []int64{4, 5, 9}, "", []int64{20, 95, 21}},
		{"above", "a", 4, []int64{7, 7, 1}, `not counted (3 under "hour")`, []int64{20, 93, 29}},
		{"above, random id", "", 4, []int64{7, 7, 1}, `not counted (3 under "hour")`, []int64{20, 93, 29}},
		{"above the capped amount", "a", 25, []int64{27, 27, 1}, `not counted (7 under "hour")`, []int64{20, 73, 29}},
		{"not above the capped amount", "a", 25, []int64{20, 20, 1}, "", []int64{20, 80, 29}},
	} {
		store, ctx := memstore.New(nil), t.Context()
		checks := []headgate.Check{{Key: "k", Cost: tt.amount}, {Key: "k", Cost: tt.amount}, {Key: "k", Cost: 5}}
		for i, limit := range []string{"20/1h", "100/24h", "30/1h"} {
			l, err := headgate.New(store, headgate.Policy{
				Name: []string{"hour", "day", "other"}[i], Limits: []headgate.Limit{headgate.MustParseLimit(limit)},
				Holds: headgate.HoldSettings{CapAmount: true},
			}, nil)
			if checks[i].Limiter = l; err != nil {
				t.Fatal(err)
			}
		}
		h, err := headgate.HoldAllAt(ctx, holdNoon, &headgate.HoldOptions{ID: tt.id, TTL: time.Minute}, checks...)
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		if _, err := checks[0].Limiter.ResetAt(ctx, holdNoon, "k"); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			_, err = h.CommitAt(ctx, holdNoon, tt.actual...)
			if tt.want == "" && err != nil || tt.want != "" && !errors.Is(err, headgate.ErrUnknownHold) {
				t.Errorf("%s, commit %d: got error %v; want an unknown hold: %t", tt.name, i+1, err, tt.want != "")
			}
			if i == 0 || tt.id != "" { // the store keeps no record of an ended hold with a random id
				if got := fmt.Sprint(err); !strings.Contains(got, tt.want) {
					t.Errorf("%s, commit %d: got error %v want %s", tt.name, i+1, got, tt.want)
				}
			}
		}
		for i, want := range tt.left {
			if d, err := checks[i].Limiter.PeekAt(ctx, holdNoon, "k", 0); err != nil || d.Remaining != want {
				t.Errorf("%s: check %d: got %d remaining, error %v want %d", tt.name, i+1, d.Remaining, err, want)
			}
		}
	}
}

// Two checks with one policy and key are one hold. If it is lost, the number of units
// that are not counted is the actual cost of both less the amount of both. It is in the
// error once.
func TestUncountedUnitsOfEqualChecks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		actual []int64
		want   string // in the error; empty for none
	}{
		{[]int64{7, 1, 1}, ""},
		{[]int64{1, 7, 1}, ""},
		{[]int64{1, 9, 1}, `not counted (2 under "lost")`},
		{[]int64{5, 5, 1}, `not counted (2 under "lost")`},
	} {
		store, ctx, recorder := memstore.New(nil), t.Context(), &eventRecorder{}
		l, other := newLimiter(t, store, "lost", recorder, "20/1h"), newLimiter(t, store, "other", recorder, "20/1h")
		again := newLimiter(t, store, "lost", recorder, "20/1h")
		h, err := headgate.HoldAllAt(ctx, holdNoon, &headgate.HoldOptions{TTL: time.Minute},
			headgate.Check{Limiter: l, Key: "k", Cost: 4}, headgate.Check{Limiter: again, Key: "k", Cost: 4}, headgate.Check{Limiter: other, Key: "k", Cost: 1})
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		if _, err := l.ResetAt(ctx, holdNoon, "k"); err != nil {
			t.Fatal(err)
		}
		recorder.take()
		_, err = h.CommitAt(ctx, holdNoon, tt.actual...)
		if tt.want == "" && err != nil || tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("commit %d: got error %v want %q", tt.actual, err, tt.want)
		}
		for i, e := range recorder.take() {
			if lost := i < 2; (e.Err != nil) != lost || lost && !errors.Is(e.Err, headgate.ErrUnknownHold) {
				t.Errorf("commit %d, event %d: got error %v; want an unknown hold: %t", tt.actual, i+1, e.Err, lost)
			}
		}
	}
}

// pausingStore executes a commit, and returns its reply when release is closed.
type pausingStore struct {
	*memstore.Store
	release chan struct{}
}

func (s *pausingStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return struct{ headgate.Bound }{b}, err // without the faster way for one key
}

// ApplyAll executes ops, whose Bounds are those of this store.
func (s *pausingStore) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, d []headgate.Decision) error {
	inner := slices.Clone(ops)
	for i := range inner {
		inner[i].Bound = inner[i].Bound.(struct{ headgate.Bound }).Bound
	}
	return s.Store.ApplyAll(ctx, now, inner, peek, d)
}

// ApplyHolds executes ops, whose Bounds are those of this store.
func (s *pausingStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	inner := slices.Clone(ops)
	for i := range inner {
		inner[i].Bound = inner[i].Bound.(struct{ headgate.Bound }).Bound
	}
	at, err := s.Store.ApplyHolds(ctx, now, verb, ttl, inner, results)
	if verb == headgate.CommitHold {
		<-s.release
	}
	return at, err
}

// Of two commits at the same time, one ends the hold and the other one is replayed. The
// wait for the first one ends with the context.
func TestConcurrentCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &pausingStore{memstore.New(nil), make(chan struct{})}
		h, err := newLimiter(t, store, "c", nil, "10/1h").Hold(context.Background(), "k", 4, time.Minute)
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		const n = 4
		results, errs := make(chan headgate.HoldResult, n), make(chan error, n)
		for range n {
			go func() {
				result, err := h.Commit(context.Background(), 1)
				results <- result
				errs <- err
			}()
		}
		synctest.Wait()
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := h.Commit(canceled, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("commit with a canceled context: got error %v want context.Canceled", err)
		}
		close(store.release)
		replayed := 0
		for range n {
			result, err := <-results, <-errs
			if err != nil || result.Remaining != 9 {
				t.Errorf("commit: got %+v, error %v want 9 remaining", result, err)
			}
			if result.Replayed {
				replayed++
			}
		}
		if replayed != n-1 {
			t.Errorf("%d of %d commits were replayed; want all but one", replayed, n)
		}
	})
}

// A commit that fails does not make the commits that wait for it fail or succeed.
func TestConcurrentCommitsOfExpiredHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &pausingStore{memstore.New(nil), make(chan struct{})}
		h, err := newLimiter(t, store, "c", nil, "10/1h").Hold(context.Background(), "k", 4, time.Second)
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		time.Sleep(2 * time.Second)
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := h.Cancel(context.Background())
				errs <- err
			}()
		}
		synctest.Wait()
		close(store.release)
		for range 2 {
			if err := <-errs; !errors.Is(err, headgate.ErrExpiredHold) {
				t.Errorf("cancel after the deadline: got error %v want ErrExpiredHold", err)
			}
		}
	})
}
