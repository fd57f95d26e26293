package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// extendingStore counts the calls of ApplyHolds that extend, and lets them fail.
type extendingStore struct {
	*memstore.Store
	extensions atomic.Int64
	longest    atomic.Int64 // maximum number of ops of a call
	fails      atomic.Bool
	hangs      atomic.Bool // whether they wait for the end of the context
	failsFor   string      // key; calls with it fail
}

func (s *extendingStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if verb == headgate.ExtendHold {
		s.extensions.Add(1)
		for n := int64(len(ops)); ; {
			if longest := s.longest.Load(); n <= longest || s.longest.CompareAndSwap(longest, n) {
				break
			}
		}
		if s.hangs.Load() {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		if s.fails.Load() {
			return 0, &headgate.StoreError{Store: "redis", Reason: headgate.ReasonUnreachable}
		}
		if slices.ContainsFunc(ops, func(op headgate.HoldOp) bool { return s.failsFor != "" && op.Key == s.failsFor }) {
			return 0, errors.New("the value cannot be read")
		}
	}
	return s.Store.ApplyHolds(ctx, now, verb, ttl, ops, results)
}

// A KeepAlive extends all holds in one call per interval, and has neither a goroutine
// nor a timer without holds: the bubble of the test would otherwise not end.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := context.Background(), &extendingStore{Store: memstore.New(nil)}
		l := newLimiter(t, store, "streams", nil, "3 concurrent")
		lost := make(chan error, 10)
		k, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{TTL: 30 * time.Second, Lost: func(_ *headgate.Hold, err error) { lost <- err }})
		if err != nil {
			t.Fatal(err)
		}
		var holds []*headgate.Hold
		for i := range 3 {
			h, err := l.Hold(ctx, "k", 1, k.TTL())
			if err != nil || !h.OK() {
				t.Fatalf("hold %d: %+v, error %v", i, h, err)
			}
			k.Add(h)
			holds = append(holds, h)
		}
		time.Sleep(time.Hour + time.Second)
		if d, err := l.Peek(ctx, "k"); err != nil || d.Allowed || store.extensions.Load() != 360 {
			t.Fatalf("after an hour: got %+v, error %v, %d extensions, want all slots taken and one extension each 10 s", d, err, store.extensions.Load())
		}
		k.Remove(holds[0])
		if _, err := holds[0].Cancel(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := holds[1].Cancel(ctx); err != nil { // without Remove
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if len(lost) != 1 || !errors.Is(<-lost, headgate.ErrUnknownHold) {
			t.Error("a hold that was not removed: want it lost once, with ErrUnknownHold")
		}
		k.Close()
		time.Sleep(31 * time.Second)
		if d, err := l.Peek(ctx, "k"); err != nil || d.Remaining != 3 {
			t.Errorf("31 s after Close: got %+v, error %v want all slots", d, err)
		}
	})
}

// While the store is unavailable, each interval tries again. A hold that has expired in
// the meantime is lost.
func TestKeepAliveOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := context.Background(), &extendingStore{Store: memstore.New(nil)}
		l := newLimiter(t, store, "streams", nil, "1 concurrent")
		var failed, lost atomic.Int64
		k, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{
			TTL: 30 * time.Second, Interval: 20 * time.Second,
			Lost:   func(*headgate.Hold, error) { lost.Add(1) },
			Failed: func(error) { failed.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		h, err := l.Hold(ctx, "k", 1, k.TTL())
		if err != nil {
			t.Fatal(err)
		}
		k.Add(h)
		store.fails.Store(true)
		time.Sleep(21 * time.Second)
		store.fails.Store(false)
		if failed.Load() != 1 || lost.Load() != 0 {
			t.Errorf("after one failure: got %d failures, %d lost", failed.Load(), lost.Load())
		}
		time.Sleep(20 * time.Second)
		if lost.Load() != 1 {
			t.Errorf("the hold has expired: got %d lost want 1", lost.Load())
		}
	})
}

// Lost and Failed may call Close. It removes all holds, so that no other one is reported.
func TestKeepAliveClosedByCallback(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, store := context.Background(), &extendingStore{Store: memstore.New(nil)}
			store.fails.Store(fails)
			l := newLimiter(t, store, "streams", nil, "3 concurrent")
			var k *headgate.KeepAlive
			var lost, failed atomic.Int64
			k, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{
				Lost:   func(*headgate.Hold, error) { lost.Add(1); k.Close() },
				Failed: func(error) { failed.Add(1); k.Close() },
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				h, err := l.Hold(ctx, "k", 1, k.TTL())
				if err != nil {
					t.Fatal(err)
				}
				k.Add(h)
				if _, err := h.Cancel(ctx); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			if got := [2]int64{lost.Load(), failed.Load()}; fails && got != [2]int64{0, 1} || !fails && got != [2]int64{1, 0} || store.extensions.Load() != 1 {
				t.Errorf("store fails: %v: got %d lost and failed, %d extensions, want one call and one extension", fails, got, store.extensions.Load())
			}
		})
	}
}

// Close cancels an extension in progress, and does not report it.
func TestKeepAliveClosedDuringExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := context.Background(), &extendingStore{Store: memstore.New(nil)}
		store.hangs.Store(true)
		l := newLimiter(t, store, "streams", nil, "1 concurrent")
		var failed atomic.Int64
		k, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{Failed: func(error) { failed.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		h, err := l.Hold(ctx, "k", 1, k.TTL())
		if err != nil {
			t.Fatal(err)
		}
		k.Add(h)
		time.Sleep(11 * time.Second)
		before := time.Now()
		k.Close()
		waited := time.Since(before)
		time.Sleep(time.Minute)
		if waited != 0 || failed.Load() != 0 || store.extensions.Load() != 1 {
			t.Errorf("got %v in Close, %d failures, %d extensions, want 0s, 0 and 1", waited, failed.Load(), store.extensions.Load())
		}
	})
}

// ExtendAll has a result for each hold, and divides many holds into several calls.
func TestExtendAll(t *testing.T) {
	t.Parallel()
	ctx, store := context.Background(), &extendingStore{Store: memstore.New(nil)}
	l := newLimiter(t, store, "streams", nil, "1000/h", "600 concurrent")
	var holds []*headgate.Hold
	for i := range 300 {
		h, err := l.HoldAt(ctx, noon.Time(), fmt.Sprint("key ", i%3), 1, time.Minute)
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		holds = append(holds, h)
	}
	if _, err := holds[7].CancelAt(ctx, noon.Time()); err != nil {
		t.Fatal(err)
	}
	later := noon.Time().Add(59 * time.Second)
	results, err := headgate.ExtendAllAt(ctx, later, time.Minute, holds...)
	if err != nil || len(results) != 300 || store.extensions.Load() != 3 {
		t.Fatalf("got %d results, error %v, %d calls; want 300 results in 3 calls of 256 limits", len(results), err, store.extensions.Load())
	}
	for i, r := range results {
		if want := i == 7; errors.Is(r.Err, headgate.ErrUnknownHold) != want || !want && r.Err != nil {
			t.Errorf("hold %d: got error %v, want ErrUnknownHold: %v", i, r.Err, want)
		}
		if want := later.Add(time.Minute); i != 7 && !holds[i].ExpiresAt().Equal(want) {
			t.Errorf("hold %d: got deadline %v want %v", i, holds[i].ExpiresAt(), want)
		}
	}
	if d, err := l.PeekAt(ctx, later.Add(time.Minute-time.Microsecond), "key 0", 1); err != nil || d.Limit-d.Remaining != 100 {
		t.Errorf("just before the new deadline: got %+v, error %v want 100 slots taken", d, err)
	}
	unlimited := headgate.Policy{Name: "vip", Limits: []headgate.Limit{headgate.Unlimited()}}
	vip, err := headgate.New(store, unlimited, nil)
	if err != nil {
		t.Fatal(err)
	}
	both, err := headgate.HoldAllAt(ctx, noon.Time(), &headgate.HoldOptions{TTL: time.Minute},
		headgate.Check{Limiter: vip, Key: "k", Cost: 1}, headgate.Check{Limiter: l, Key: "key 9", Cost: 1})
	if err != nil || !both.OK() {
		t.Fatal(both, err)
	}
	if results, err := headgate.ExtendAllAt(ctx, later, time.Minute, both); err != nil || results[0].Err != nil {
		t.Errorf("a hold with a limit that does not count: got %v, error %v", results, err)
	}
	if _, err := headgate.ExtendAll(ctx, 0, holds...); !errors.Is(err, headgate.ErrInvalidHold) {
		t.Errorf("a TTL of 0: got error %v want ErrInvalidHold", err)
	}
	other := newLimiter(t, memstore.New(nil), "streams", nil, "1 concurrent")
	h, err := other.Hold(ctx, "k", 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := headgate.ExtendAll(ctx, time.Minute, holds[0], h); !errors.Is(err, headgate.ErrInvalidHold) {
		t.Errorf("holds of two stores: got error %v want ErrInvalidHold", err)
	}
	if results, err := headgate.ExtendAll(ctx, time.Minute); err != nil || len(results) != 0 {
		t.Errorf("no holds: got %v, error %v", results, err)
	}
}

// A call of the store extends at most 256 limits. If one fails because of a key, only the
// hold of this key is not extended. A call of 85 holds is divided 7 times at most.
func TestExtendAllWithFailingCall(t *testing.T) {
	t.Parallel()
	store := &extendingStore{Store: memstore.New(nil), failsFor: "key 100"}
	l := newLimiter(t, store, "streams", nil, "1000/h", "1000/day", "600 concurrent")
	var holds []*headgate.Hold
	for i := range 300 {
		h, err := l.HoldAt(t.Context(), noon.Time(), fmt.Sprint("key ", i), 1, time.Minute)
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		holds = append(holds, h)
	}
	holds[250] = headgate.ResumeHold(headgate.NewHoldID(), noon.Time()) // without checks
	results, err := headgate.ExtendAllAt(t.Context(), noon.Time(), time.Hour, holds...)
	if err == nil || len(results) != 300 || store.longest.Load() != 255 || store.extensions.Load() > 4+2*7 {
		t.Fatalf("got error %v, %d results, %d calls, at most %d limits in one; want an error, 300 results, at most 18 calls of at most 255",
			err, len(results), store.extensions.Load(), store.longest.Load())
	}
	for i, r := range results {
		failed := i == 100 || i == 250
		if (r.Err != nil) != failed {
			t.Errorf("hold %d: got error %v, want one: %v", i, r.Err, failed)
		}
		if want := noon.Time().Add(time.Hour); !failed && !holds[i].ExpiresAt().Equal(want) {
			t.Errorf("hold %d: got deadline %v want %v", i, holds[i].ExpiresAt(), want)
		}
	}
}

func TestKeepAliveOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []headgate.KeepAliveOptions{{TTL: -1}, {TTL: 8 * 24 * time.Hour}, {Interval: -1}, {TTL: time.Second, Interval: time.Second}} {
		if _, err := headgate.NewKeepAlive(&o); !errors.Is(err, headgate.ErrInvalidHold) {
			t.Errorf("%+v: got error %v want ErrInvalidHold", o, err)
		}
	}
	if k, err := headgate.NewKeepAlive(nil); err != nil || k.TTL() != headgate.DefaultKeepAliveTTL {
		t.Errorf("no options: got %v, error %v", k, err)
	}
}
