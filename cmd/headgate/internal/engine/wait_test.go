package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// verbs notes the verb, the error and the first key of every event.
type verbs struct {
	got  []engine.Operation
	keys []string
}

func (*verbs) Begin() int64 { return 1 }

func (v *verbs) Observe(e *engine.Event) {
	v.got, v.keys = append(v.got, e.Operation), append(v.keys, e.Key(0))
}

// A request that leaves its queue keeps all charges, also those in shadow mode, if it has
// another limit.
func TestAwaitKeepsOtherCharges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := headgate.MustPolicy("1/1s queue 5")
		queue.Algorithm = headgate.LeakyBucket
		e, err := engine.New(memstore.New(nil), &engine.Options{
			Policies: map[string]headgate.Policy{
				"queue": queue, "bucket": headgate.MustPolicy("9/1h"),
				"watched": headgate.MustPolicy("9/1h"), "full": headgate.MustPolicy("1/1h"),
			},
			PolicyOptions: map[string]engine.PolicyOptions{"watched": {Shadow: engine.All}, "full": {Shadow: engine.All}},
		})
		if err != nil {
			t.Fatal(err)
		}
		heard := &verbs{}
		s := e.WithObserver(heard, 1).ActiveConfig()
		var checks []engine.Check
		for _, name := range []string{"watched", "queue", "full", "bucket"} {
			checks = append(checks, engine.Check{Policy: name, Key: "k", Cost: 1})
		}
		var a engine.Answer
		if err := s.Admit(t.Context(), checks, &a); err != nil || !a.Allowed || a.Delay != 0 {
			t.Fatalf("the first: got %+v, error %v", a.Decision, err)
		}
		if err := s.Admit(t.Context(), checks, &a); err != nil || !a.Allowed || a.Delay != time.Second {
			t.Fatalf("the second: got %+v, error %v", a.Decision, err)
		}
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, leave)
		if err := s.Await(ctx, &a); !errors.Is(err, context.Canceled) {
			t.Errorf("it leaves: got error %v want context.Canceled", err)
		}
		if want := []engine.Operation{engine.Take, engine.Take}; !slices.Equal(heard.got, want) {
			t.Errorf("observed %v want %v", heard.got, want)
		}
		for name, want := range map[string]int64{"bucket": 7, "watched": 7, "full": 0, "queue": 4} {
			if err := e.Decide(t.Context(), headgate.Peek, []engine.Check{{Policy: name, Key: "k"}}, &a); err != nil {
				t.Fatal(err)
			}
			if a.Remaining != want {
				t.Errorf("%s: got %d remaining want %d", name, a.Remaining, want)
			}
		}
	})
}

// A cancelled reservation is observed, with its key.
func TestAwaitObservesCancellation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := headgate.MustPolicy("1/1s queue 5")
		queue.Algorithm = headgate.LeakyBucket
		e, _ := newEngine(t, &engine.Options{Policies: map[string]headgate.Policy{"queue": queue}})
		heard := &verbs{}
		s := e.WithObserver(heard, 1).ActiveConfig()
		check := engine.Check{Policy: "queue", Key: "k", Cost: 1}
		var a engine.Answer
		for range 2 {
			if err := s.Admit(t.Context(), []engine.Check{check}, &a); err != nil || !a.Allowed {
				t.Fatalf("got %+v, error %v want it admitted", a.Decision, err)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := s.Await(ctx, &a); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v want context.Canceled", err)
		}
		if want := []engine.Operation{engine.Take, engine.Take, engine.Refund}; !slices.Equal(heard.got, want) || heard.keys[2] != "k" {
			t.Errorf("observed %v of keys %q want %v of k", heard.got, heard.keys, want)
		}
	})
}

// A request whose charges all stay spent is not observed as a refund.
func TestAwaitObservesNoRefundIfNothingIsRefunded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := headgate.MustPolicy("1/1s queue 5", "2/1s queue 5") // no reservation covers two limits
		queue.Algorithm = headgate.LeakyBucket
		e, _ := newEngine(t, &engine.Options{Policies: map[string]headgate.Policy{"queue": queue}})
		heard := &verbs{}
		s := e.WithObserver(heard, 1).ActiveConfig()
		var a engine.Answer
		for range 2 {
			if err := s.Admit(t.Context(), []engine.Check{{Policy: "queue", Key: "k", Cost: 1}}, &a); err != nil || !a.Allowed {
				t.Fatalf("got %+v, error %v want it admitted", a.Decision, err)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := s.Await(ctx, &a); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v want context.Canceled", err)
		}
		if want := []engine.Operation{engine.Take, engine.Take}; !slices.Equal(heard.got, want) {
			t.Errorf("observed %v want %v", heard.got, want)
		}
	})
}

func TestAdmitAllocatesNothing(t *testing.T) {
	queue := headgate.MustPolicy("1000000/1s queue 1000000")
	queue.Algorithm = headgate.LeakyBucket
	e, _ := newEngine(t, &engine.Options{Policies: map[string]headgate.Policy{"queue": queue}})
	checks := []engine.Check{{Policy: "queue", Key: "k", Cost: 1}}
	var a engine.Answer
	if n := testing.AllocsPerRun(1000, func() {
		if err := e.ActiveConfig().Admit(t.Context(), checks, &a); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a place in a queue: got %v allocations want 0", n)
	}
}
