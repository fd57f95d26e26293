package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// Several holds of one key in one call must fit together.
func TestSeveralHoldsOfOneKey(t *testing.T) {
	rs := openURL(t, "redis://"+testserver.Redis(t).Addr())
	for name, store := range map[string]headgate.HoldStore{"memory": memstore.New(nil), "redis": rs} {
		for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.FixedWindow, headgate.SlidingLog, headgate.Concurrency} {
			limit := "20/1h"
			if a == headgate.Concurrency {
				limit = "20 concurrent"
			}
			b, err := store.Bind(headgate.Rule{Scope: "s", Name: "s", Limit: headgate.MustParseLimit(limit), Algorithm: a})
			if err != nil {
				t.Fatal(err)
			}
			ops, results := make([]headgate.HoldOp, 2), make([]headgate.HoldResult, 2)
			for i := range ops {
				ops[i] = headgate.HoldOp{Op: headgate.Op{Bound: b, Key: "key", Cost: 15}, ID: headgate.HoldID{byte(i + 1)}}
			}
			_, err = store.ApplyHolds(t.Context(), testInstant, headgate.OpenHold, time.Minute, ops, results)
			if err != nil || results[0].Allowed && results[1].Allowed {
				t.Errorf("%s %s: two holds of 15 under %s: got %+v, %v; want a denial", name, a, limit, results, err)
			}
		}
	}
}

// An id that was used for only some of the keys is a conflict, and nothing is charged.
func TestHoldIDOfOtherKeysIsConflict(t *testing.T) {
	rs := openURL(t, "redis://"+testserver.Redis(t).Addr())
	for name, store := range map[string]headgate.HoldStore{"memory": memstore.New(nil), "redis": rs} {
		l, err := headgate.New(store, headgate.MustNamedPolicy("p", "10/1h"), nil)
		if err != nil {
			t.Fatal(err)
		}
		opts := &headgate.HoldOptions{ID: "job", TTL: time.Minute}
		if h, err := headgate.HoldAllAt(t.Context(), testInstant.Time(), opts, headgate.Check{Limiter: l, Key: "first", Cost: 2}); err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		_, err = headgate.HoldAllAt(t.Context(), testInstant.Time(), opts,
			headgate.Check{Limiter: l, Key: "first", Cost: 2}, headgate.Check{Limiter: l, Key: "second", Cost: 3})
		if !errors.Is(err, headgate.ErrHoldConflict) {
			t.Errorf("%s: got error %v want ErrHoldConflict", name, err)
		}
		for key, want := range map[string]int64{"first": 8, "second": 10} {
			if d, err := l.PeekAt(t.Context(), testInstant.Time(), key, 0); err != nil || d.Remaining != want {
				t.Errorf("%s: %s: got %d remaining, error %v want %d", name, key, d.Remaining, err, want)
			}
		}
	}
}

// The record of an ended hold counts until its deadline.
func TestIDAfterDeadline(t *testing.T) {
	rs := openURL(t, "redis://"+testserver.Redis(t).Addr())
	for name, store := range map[string]headgate.Store{"memory": memstore.New(nil), "redis": rs} {
		l := limiterOf(t, store, "p", headgate.FixedWindow, "10/24h")
		ctx, at := context.Background(), testInstant.Time()
		o, check := &headgate.HoldOptions{ID: "job", TTL: time.Second}, headgate.Check{Limiter: l, Key: "k", Cost: 4}
		h, err := headgate.HoldAllAt(ctx, at, o, check)
		if err != nil || !h.OK() {
			t.Fatal(err)
		}
		if _, err := h.CommitAt(ctx, at, 4); err != nil {
			t.Fatal(err)
		}
		later := at.Add(time.Minute)
		h, err = headgate.HoldAllAt(ctx, later, o, check)
		if err != nil || h.Replayed() {
			t.Errorf("%s: a hold with the same id after the deadline: replayed %v, error %v; want a new hold", name, h.Replayed(), err)
		}
		if d, _ := l.PeekAt(ctx, later, "k", 0); d.Remaining != 2 {
			t.Errorf("%s: got %d remaining want 2", name, d.Remaining)
		}
	}
}

// Thousands of holds of one key that expire together are corrected in one call.
func TestHoldsExpireTogether(t *testing.T) {
	const calls, each = 25, 200
	store, err := redisstore.Open("redis://"+testserver.Redis(t).Addr(), &redisstore.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingWindow, headgate.SlidingLog} {
		b, err := store.Bind(headgate.Rule{
			Scope: "s", Name: "s", Limit: headgate.MustParseLimit("20000/24h"), Algorithm: a,
			Holds: headgate.HoldSettings{OnExpiry: headgate.ReleaseExpired, MaxOpen: calls * each},
		})
		if err != nil {
			t.Fatal(err)
		}
		ops, results := make([]headgate.HoldOp, each), make([]headgate.HoldResult, each)
		for range calls {
			for i := range ops {
				ops[i] = headgate.HoldOp{Op: headgate.Op{Bound: b, Key: string(a), Cost: 1}, ID: headgate.NewHoldID()}
			}
			if _, err := store.ApplyHolds(t.Context(), testInstant, headgate.OpenHold, time.Minute, ops, results); err != nil {
				t.Fatal(err)
			}
		}
		later := testInstant + headgate.Instant(2*time.Minute.Microseconds())
		d, err := b.Apply(t.Context(), later, string(a), headgate.Take, 1)
		if want := int64(20000 - 1); err != nil || d.Remaining != want {
			t.Errorf("%s: got %+v, %v; want %d remaining", a, d, err, want)
		}
	}
}

// A key with a value of another program must not stop the extension of the other holds.
func TestExtendHoldsWithForeignValue(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	l := limiterOf(t, openURL(t, "redis://"+server.Addr()), "p", headgate.FixedWindow, "10/1h")
	var holds []*headgate.Hold
	for i := range 20 {
		h, err := l.HoldAt(t.Context(), testInstant.Time(), fmt.Sprint("key ", i), 1, time.Minute)
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		holds = append(holds, h)
	}
	for _, item := range server.Do(t, "KEYS", "*:key%207").Items {
		server.Do(t, "DEL", item.Text)
		server.Do(t, "LPUSH", item.Text, "x")
	}
	results, err := headgate.ExtendAllAt(t.Context(), testInstant.Time(), time.Hour, holds...)
	mustBeWrongType(t, "extension of all holds", err)
	for i, r := range results {
		if failed := r.Err != nil; failed != (i == 7) {
			t.Errorf("hold %d: got error %v", i, r.Err)
		}
	}
}
