package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
	"github.com/headgate/headgate/memstore"
)

var holdNoon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// An unlimited check must not hide that the hold has expired under the counted one.
func TestExpiredHoldWithUnlimited(t *testing.T) {
	store := memstore.New(nil)
	u := newLimiter(t, store, "u", nil, "unlimited")
	c := newLimiter(t, store, "c", nil, "1 concurrent")
	h, err := headgate.HoldAllAt(t.Context(), holdNoon, &headgate.HoldOptions{TTL: time.Second}, headgate.Check{Limiter: u, Key: "k", Cost: 1}, headgate.Check{Limiter: c, Key: "k", Cost: 1})
	if err != nil || !h.OK() {
		t.Fatal(err)
	}
	late := holdNoon.Add(10 * time.Second)
	if _, err := h.ExtendAt(t.Context(), late, time.Minute); !errors.Is(err, headgate.ErrExpiredHold) {
		t.Errorf("extend: got error %v, deadline %v want ErrExpiredHold", err, h.ExpiresAt())
	}
	if r, err := headgate.ExtendAllAt(t.Context(), late, time.Minute, h); err != nil || r[0].Err == nil {
		t.Errorf("extend all: got %+v, %v want an error", r, err)
	}
	if _, err := h.CommitAt(t.Context(), late, 1, 1); err == nil {
		t.Errorf("commit: got no error")
	}
}

// All ops of TakeUpTo take the same number of units.
func TestTakeUpToWithUnlimitedOrBlocked(t *testing.T) {
	for _, tt := range []struct {
		limit string
		cost  int64
		want  int64
	}{{"unlimited", 3, 3}, {"0/s", 9, 0}} {
		store := memstore.New(nil)
		bind := func(text string) headgate.Bound {
			l, err := headgate.ParsePolicyLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			b, err := root.Bind(store, headgate.Rule{Scope: text, Name: text, Limit: l, Algorithm: headgate.FixedWindow})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		ten := bind("10/1h")
		ops := []headgate.HoldOp{{Op: headgate.Op{Bound: bind(tt.limit), Key: "k", Cost: tt.cost}}, {Op: headgate.Op{Bound: ten, Key: "k", Cost: 9}}}
		results := make([]headgate.HoldResult, 2)
		if _, err := root.ApplyHolds(t.Context(), store, headgate.InstantOf(holdNoon), headgate.TakeUpTo, 0, ops, results); err != nil {
			t.Fatal(err)
		}
		d, _ := ten.Apply(t.Context(), headgate.InstantOf(holdNoon), "k", headgate.Peek, 0)
		if d.Remaining != 10-tt.want || results[0].Granted != tt.want || results[1].Granted != tt.want {
			t.Errorf("%s: got %d of 10 remaining, granted %d and %d; want %d granted to both", tt.limit, d.Remaining, results[0].Granted, results[1].Granted, tt.want)
		}
	}
}

func TestExtendAllOfHoldWithoutChecks(t *testing.T) {
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	_, err := headgate.ExtendAll(t.Context(), time.Minute, headgate.ResumeHold(headgate.NewHoldID(), holdNoon))
	if err == nil {
		t.Error("no error")
	}
}

// failingStore fails to extend holds of the key bad, and hangs for the key hang.
type failingStore struct {
	*memstore.Store
	err   error // error for the key bad
	calls atomic.Int64
}

func (s *failingStore) ApplyHolds(ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult) (headgate.Instant, error) {
	if verb == headgate.ExtendHold {
		s.calls.Add(1)
		for _, op := range ops {
			switch op.Key {
			case "bad":
				return 0, s.err
			case "hang":
				<-ctx.Done()
				return 0, ctx.Err()
			}
		}
	}
	return s.Store.ApplyHolds(ctx, now, verb, ttl, ops, results)
}

// Keys that fail must not stop the extension of the holds in the same call. If the server
// fails, the call is not repeated.
func TestKeepAliveFailingBatch(t *testing.T) {
	wrongType := &headgate.StoreError{Store: "redis", Reason: headgate.ReasonWrongType}
	refused := &headgate.StoreError{Store: "redis", Reason: headgate.ReasonRefused}
	for _, tt := range []struct {
		name           string
		err            error
		holds, bad     int
		lost, maxCalls int64 // maxCalls is the maximum of one interval
	}{
		{"one key", wrongType, 2000, 1, 0, 8 + 16},
		{"four keys", errors.New("wrong value"), 2000, 4, 0, 8 + 4*16},
		{"all holds in one call", wrongType, 100, 1, 0, 1 + 14},
		{"every hold but one", wrongType, 200, 199, 1, 1 + 64},
		{"the server", refused, 100, 1, 99, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &failingStore{Store: memstore.New(nil), err: tt.err}
				if lost, calls := lostHolds(t, store, tt.holds, tt.bad); lost > tt.lost || calls > tt.maxCalls {
					t.Errorf("got %d healthy holds lost, up to %d calls an interval; want at most %d and %d", lost, calls, tt.lost, tt.maxCalls)
				}
			})
		})
	}
}

// lostHolds keeps holds open for 75 s, of which bad ones fail. It returns the number of
// other holds that have expired, and the maximum number of calls in an interval.
func lostHolds(t *testing.T, store *failingStore, holds, bad int) (lost, calls int64) {
	l := newLimiter(t, store, "c", nil, fmt.Sprintf("%d concurrent", max(bad, 1)))
	k, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{TTL: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for i := range holds {
		key := fmt.Sprint(i)
		if i < bad {
			key = "bad"
		}
		h, err := l.Hold(t.Context(), key, 1, k.TTL())
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		k.Add(h)
	}
	time.Sleep(5 * time.Second)
	for range 7 {
		time.Sleep(10 * time.Second)
		calls = max(calls, store.calls.Swap(0))
	}
	for i := bad; i < holds; i++ {
		if d, _ := l.Peek(t.Context(), fmt.Sprint(i)); d.Remaining == int64(max(bad, 1)) {
			lost++
		}
	}
	return lost, calls
}

// A store that hangs must not make the holds in another store expire.
func TestKeepAliveHangingStore(t *testing.T) {
	synctest.Test(t, testKeepAliveHangingStore)
}

func testKeepAliveHangingStore(t *testing.T) {
	var lost atomic.Int64
	k, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{TTL: 30 * time.Second, Lost: func(*headgate.Hold, error) { lost.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for i, key := range []string{"hang", "hang", "hang", "ok"} {
		l := newLimiter(t, &failingStore{Store: memstore.New(nil)}, "c", nil, "1 concurrent")
		h, err := l.Hold(t.Context(), key, 1, k.TTL())
		if err != nil || !h.OK() {
			t.Fatal(i, err)
		}
		k.Add(h)
	}
	time.Sleep(5 * time.Minute)
	if lost.Load() > 0 {
		t.Errorf("the hold in the healthy store was lost")
	}
}

// A repeated hold has the deadline that is stored, also after an extension and a commit.
func TestReplayedHoldHasStoredDeadline(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, memstore.New(nil), "c", nil, "10/1h")
	open := func(after time.Duration) *headgate.Hold {
		h, err := headgate.HoldAllAt(t.Context(), noon.Time().Add(after), &headgate.HoldOptions{ID: "a", TTL: 10 * time.Second}, headgate.Check{Limiter: l, Key: "k", Cost: 1})
		if err != nil || h.Replayed() != (after > 0) {
			t.Fatal(h, err)
		}
		return h
	}
	want := 10 * time.Second
	mustExpire := func(h *headgate.Hold, after time.Duration) {
		t.Helper()
		if got := h.ExpiresAt().Sub(noon.Time()); got != want {
			t.Errorf("repeated after %v: got a deadline after %v want %v", after, got, want)
		}
	}
	h := open(0)
	mustExpire(open(9*time.Second), 9*time.Second)
	if _, err := h.ExtendAt(t.Context(), noon.Time().Add(5*time.Second), time.Minute); err != nil {
		t.Fatal(err)
	}
	want = 65 * time.Second
	mustExpire(open(20*time.Second), 20*time.Second)
	if _, err := h.CommitAt(t.Context(), noon.Time().Add(21*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	mustExpire(open(22*time.Second), 22*time.Second)
}
