package headgate_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func TestWaitWithMultipleLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waiting := newWaiters(newAlgorithmLimiter(t, memstore.New(nil), headgate.TokenBucket, "2/s", "3/10s"))
		for i := range 5 {
			waiting.join(t.Context(), i, 1)
		}
		waiting.all.Wait()
		want := []time.Duration{0, 0, 500 * time.Millisecond, 10 * time.Second / 3, 20 * time.Second / 3}
		for i := range want {
			want[i] = want[i].Truncate(time.Microsecond)
			if i > 2 {
				want[i] += time.Microsecond // thirds of a second round up
			}
		}
		if !slices.Equal(waiting.served, want) {
			t.Errorf("five of 2/s and 3/10s: got served at %v want %v", waiting.served, want)
		}
		if err := waiting.limiter.WaitN(t.Context(), "key", 3); !errors.Is(err, headgate.ErrNeverAllowed) {
			t.Errorf("3 of 2/s and 3/10s: got error %v want ErrNeverAllowed", err)
		}
	})
}

// Several leaky buckets allow a request together and delay it. A request whose turn is
// after its deadline reserves nothing. The reservation of a cancelled request remains,
// because later requests may have reserved times after it.
func TestWaitInMultipleQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newAlgorithmLimiter(t, memstore.New(nil), headgate.LeakyBucket, "1/s queue 9", "1/s queue 99")
		mustAllow(t, l, "key", 5)
		began := time.Now()
		soon, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if err := l.Wait(soon, "key"); !errors.Is(err, headgate.ErrWouldExceedDeadline) || time.Since(began) != 0 {
			t.Errorf("held back for 5 s with a deadline in 4: got error %v after %v want ErrWouldExceedDeadline immediately", err, time.Since(began))
		}
		later, stop := context.WithCancel(t.Context())
		waiting := newWaiters(l)
		waiting.join(later, 0, 1)
		time.Sleep(time.Second)
		stop()
		waiting.all.Wait()
		if err := waiting.err(0); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled while held back: got error %v want context.Canceled", err)
		}
		if d, _ := l.PeekN(t.Context(), "key", 0); d.Delay != 5*time.Second {
			t.Errorf("a second after one of them took a place: got delay %v want 5s", d.Delay)
		}
	})
}

func TestWaitersOnManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newAlgorithmLimiter(t, memstore.New(nil), headgate.TokenBucket, "10/s")
		var all sync.WaitGroup
		var served atomic.Int64
		for i := range 400 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*300*time.Millisecond+time.Millisecond)
			all.Go(func() {
				defer cancel()
				if l.WaitN(ctx, string(rune('a'+i%5)), int64(1+i%3)) == nil {
					served.Add(int64(1 + i%3))
				}
			})
		}
		all.Wait()
		if got := served.Load(); got < 5*10 || got > 5*(10+18+1) {
			t.Errorf("5 keys of 10/s, 1.8 s: got %d units served want from 50 to 145", got)
		}
		time.Sleep(time.Minute)
		if err := l.WaitN(t.Context(), "a", 10); err != nil {
			t.Errorf("a minute later: got error %v want none", err)
		}
	})
}
