package turn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/turn"
)

func TestAwait(t *testing.T) {
	t.Parallel()
	const turnAfter = time.Second
	for name, tt := range map[string]struct {
		delay    time.Duration
		cancel   time.Duration // 0: never
		deadline time.Duration // 0: none
		want     error
		waits    time.Duration
	}{
		"the turn comes":                      {delay: turnAfter, waits: turnAfter},
		"it is due":                           {delay: 0},
		"it was due":                          {delay: -time.Hour},
		"cancelled before":                    {delay: turnAfter, cancel: time.Second / 2, want: context.Canceled, waits: time.Second / 2},
		"cancelled at the same instant":       {delay: turnAfter, cancel: turnAfter, waits: turnAfter},
		"the deadline is at the same instant": {delay: turnAfter, deadline: turnAfter, waits: turnAfter},
		"the deadline is before":              {delay: turnAfter, deadline: turnAfter - 1, want: context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.deadline)
				defer cancel()
			}
			if tt.cancel > 0 {
				time.AfterFunc(tt.cancel, cancel)
			}
			began := time.Now()
			err := turn.Await(ctx, began.Add(tt.delay))
			if waited := time.Since(began); !errors.Is(err, tt.want) || waited != tt.waits {
				t.Errorf("%s: got %v after %v want %v after %v", name, err, waited, tt.want, tt.waits)
			}
		})
	}
}

// lateContext is a cancelled context whose Done method blocks until a given time.
type lateContext struct {
	context.Context
	at time.Time
}

func (c lateContext) Done() <-chan struct{} {
	<-time.After(time.Until(c.at))
	done := make(chan struct{})
	close(done)
	return done
}

func (lateContext) Err() error { return context.Canceled }

// If the turn is due and the context has ended, either may be detected first. The turn is
// used in both cases.
func TestAwaitTurnDueAtDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			due := time.Now().Add(time.Second)
			if err := turn.Await(lateContext{t.Context(), due}, due); err != nil {
				t.Fatalf("both at the same instant: got error %v want none", err)
			}
		}
	})
}

func TestDetached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		parent, end := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		end()
		ctx, done := turn.Detached(parent)
		defer done()
		if ctx.Err() != nil || ctx.Value(key{}) != "value" {
			t.Errorf("of a context that has ended: got error %v, value %v want none, its value", ctx.Err(), ctx.Value(key{}))
		}
		time.Sleep(turn.StoreTimeout)
		synctest.Wait()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("after StoreTimeout: got error %v want it ended", ctx.Err())
		}
	})
}
