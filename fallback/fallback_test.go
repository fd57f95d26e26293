package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
)

const noon = headgate.Instant(1_767_268_800_000_000)

var background = context.Background()

func TestFailureModeOfRule(t *testing.T) {
	t.Parallel()
	for _, tr := range []headgate.StoreErrorReason{
		headgate.ReasonUnreachable, headgate.ReasonTimedOut, headgate.ReasonRefused, headgate.ReasonWrongType, headgate.ReasonOverloaded, headgate.ReasonBreakerOpen,
	} {
		inner := newFaultyStore()
		s := around(t, inner, &fallback.Options{Local: memstore.New(nil), Instances: 2, Failures: 1000})
		inner.set(failWith(tr))

		closed := limiter(t, s, "", "10/1s", headgate.FailClosed)
		_, err := closed.AllowAt(background, noon.Time(), "key", 1)
		var typed *headgate.StoreError
		if !errors.As(err, &typed) || typed.Reason != tr || typed.Store != "faulty" || !errors.Is(err, headgate.ErrStoreUnavailable) {
			t.Errorf("closed, %v: got error %v want that of the store", tr, err)
		}

		open := limiter(t, s, "", "10/1s", headgate.FailOpen)
		for range 20 {
			d, err := open.AllowAt(background, noon.Time(), "key", 7)
			if want := (headgate.Decision{Allowed: true, Limit: 10, Remaining: 10, Degraded: tr}); err != nil || fmt.Sprint(d) != fmt.Sprint(want) {
				t.Fatalf("open, %v: got %+v, error %v want %+v", tr, d, err, want)
			}
		}

		local := limiter(t, s, "", "10/1s", headgate.FailLocal)
		for i := range 6 {
			d, err := local.AllowAt(background, noon.Time(), "key", 1)
			if err != nil || d.Allowed != (i < 5) || d.Limit != 5 || d.Degraded != tr {
				t.Fatalf("local, %v: take %d: got %+v, error %v want the first 5 of a share of 5", tr, i+1, d, err)
			}
		}
		d, _ := local.AllowAt(background, noon.Time(), "key", 1)
		if d.RetryAfter != 200*time.Millisecond || len(d.DeniedBy) != 1 || d.DeniedBy[0] != "p" {
			t.Errorf("local, %v: denied: got %+v want a wait of 200 ms, by p", tr, d)
		}
		inner.clearFault()
		if d, err := local.AllowAt(background, noon.Time(), "key", 10); err != nil || !d.Allowed || d.Degraded != headgate.ReasonNone || d.Limit != 10 {
			t.Errorf("healed, %v: got %+v, error %v want all 10 of the store", tr, d, err)
		}
	}
}

// A call that is itself at fault returns its own error, whatever the failure mode.
func TestInvalidCallsReturnTheirError(t *testing.T) {
	t.Parallel()
	inner := newFaultyStore()
	s := around(t, inner, nil)
	l := limiter(t, s, "", "10/1s", headgate.FailOpen)
	for _, want := range []error{headgate.ErrUnsupported, headgate.ErrInvalidCost, headgate.ErrStoreFull, headgate.ErrClosed} {
		inner.set(func(context.Context, string) error { return want })
		for range 100 {
			if d, err := l.AllowAt(background, noon.Time(), "key", 1); !errors.Is(err, want) || d.Allowed {
				t.Fatalf("got %+v, error %v want %v", d, err, want)
			}
		}
	}
}

// A store may return only ErrStoreUnavailable or only context.DeadlineExceeded.
func TestUntypedErrorsAreClassified(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want headgate.StoreErrorReason
	}{
		{fmt.Errorf("odd: %w", headgate.ErrStoreUnavailable), headgate.ReasonUnreachable},
		{fmt.Errorf("odd: %w", context.DeadlineExceeded), headgate.ReasonTimedOut},
		{fmt.Errorf("odd: %w", &headgate.StoreError{Store: "odd", Reason: headgate.ReasonRefused}), headgate.ReasonRefused},
	} {
		inner := newFaultyStore()
		s := around(t, inner, nil)
		inner.set(func(context.Context, string) error { return c.err })
		_, err := limiter(t, s, "", "10/1s", "").AllowAt(background, noon.Time(), "secret key", 1)
		var typed *headgate.StoreError
		if !errors.As(err, &typed) || typed.Reason != c.want || !errors.Is(err, c.err) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: got error %v want a StoreError that says %v, and no key", c.err, err, c.want)
		}
		d, err := limiter(t, s, "", "10/1s", headgate.FailOpen).AllowAt(background, noon.Time(), "key", 1)
		if err != nil || d.Degraded != c.want {
			t.Errorf("%v, open: got %+v, error %v want degraded: %v", c.err, d, err, c.want)
		}
	}
}

func TestDecisionStaysWithinTimeBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newFaultyStore()
		s := around(t, inner, &fallback.Options{Local: memstore.New(nil), Instances: 1, Failures: 1000})
		l := limiter(t, s, "", "1000/1s", headgate.FailLocal)
		inner.set(hangs)
		within := func(ctx context.Context, least, most time.Duration) {
			t.Helper()
			began := time.Now()
			d, err := l.Allow(ctx, "key")
			if took := time.Since(began); err != nil || d.Degraded != headgate.ReasonTimedOut || took < least || took > most {
				t.Errorf("got %+v, error %v after %v want timed out after %v to %v", d, err, took, least, most)
			}
		}
		within(background, 49*time.Millisecond, 50*time.Millisecond)
		time.Sleep(300 * time.Microsecond)
		within(background, 49*time.Millisecond, 50*time.Millisecond)

		long, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		within(long, 49*time.Millisecond, 50*time.Millisecond)

		// A caller with a short deadline has time left when it receives the fallback
		// decision.
		short, cancel := context.WithTimeout(background, 20*time.Millisecond)
		defer cancel()
		within(short, 15*time.Millisecond, 15*time.Millisecond)
	})
}

func TestCancelledCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner, recorder := newFaultyStore(), &eventRecorder{}
		s := around(t, inner, &fallback.Options{Failures: 1, Observer: recorder})
		l := limiter(t, s, "", "1000/1s", headgate.FailOpen)

		over, cancel := context.WithCancel(background)
		cancel()
		if d, err := l.Allow(over, "key"); !errors.Is(err, context.Canceled) || d.Allowed || inner.calls.Load() != 0 {
			t.Errorf("cancelled before the call: got %+v, error %v, %d store calls want context.Canceled and 0", d, err, inner.calls.Load())
		}

		inner.set(func(ctx context.Context, key string) error { // too slow for these callers, within the budget
			select {
			case <-ctx.Done():
				return hangs(ctx, key)
			case <-time.After(48 * time.Millisecond):
				return nil
			}
		})
		for range 30 { // far more than open the breaker
			short, cancel := context.WithTimeout(background, 10*time.Millisecond)
			go func() { time.Sleep(5 * time.Millisecond); cancel() }()
			if d, err := l.Allow(short, "key"); !errors.Is(err, context.Canceled) || d.Allowed {
				t.Fatalf("cancelled before its deadline: got %+v, error %v want context.Canceled", d, err)
			}
			short, cancel = context.WithTimeout(background, 45*time.Millisecond)
			go func() { time.Sleep(5 * time.Millisecond); cancel() }()
			if _, err := l.Allow(short, "key"); !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled long before its deadline: got error %v want context.Canceled", err)
			}
			short, cancel = context.WithTimeout(background, 10*time.Millisecond)
			if d, err := l.Allow(short, "key"); err != nil || d.Degraded != headgate.ReasonTimedOut {
				t.Fatalf("a deadline of 10 ms: got %+v, error %v want timed out", d, err)
			}
			cancel()
		}
		synctest.Wait()
		if got := recorder.names(); got != nil {
			t.Errorf("callers with short deadlines: the observer received %q want nothing: their timeouts are no evidence", got)
		}

		// For a caller without a deadline the budget applies: a store that does not
		// reply within it counts as failed.
		inner.set(hangs)
		quits, cancel := context.WithCancel(background)
		go func() { time.Sleep(5 * time.Millisecond); cancel() }()
		began := time.Now()
		if _, err := l.Allow(quits, "key"); !errors.Is(err, context.Canceled) || time.Since(began) > 50*time.Millisecond {
			t.Errorf("cancelled: got error %v after %v want context.Canceled within 50 ms", err, time.Since(began))
		}
	})
}

type name struct{}

// The inner store sees the caller's values.
func TestContextValuesReachInnerStore(t *testing.T) {
	t.Parallel()
	inner := newFaultyStore()
	s := around(t, inner, nil)
	l := limiter(t, s, "", "10/1s", "")
	var seen any
	var derived error
	inner.set(func(ctx context.Context, _ string) error {
		seen = ctx.Value(name{})
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		_, hasDeadline := child.Deadline()
		if !hasDeadline || child.Err() != nil {
			derived = fmt.Errorf("a child context: deadline %v, error %w", hasDeadline, child.Err())
		}
		return nil
	})
	caller, cancel := context.WithCancel(context.WithValue(background, name{}, "trace 1"))
	defer cancel()
	if _, err := l.AllowAt(caller, noon.Time(), "key", 1); err != nil || seen != "trace 1" || derived != nil {
		t.Errorf("got %v, error %v, %v want the caller's value", seen, err, derived)
	}
}

func TestInFlightCallsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newFaultyStore()
		s := around(t, inner, &fallback.Options{MaxInFlight: 10, Failures: 1000})
		l := limiter(t, s, "", "1000/1s", headgate.FailOpen)
		inner.set(hangs)
		answers := make(chan headgate.StoreErrorReason, 100)
		for range 100 {
			go func() {
				d, _ := l.Allow(background, "key")
				answers <- d.Degraded
			}()
		}
		synctest.Wait()
		if got := len(answers); got != 90 || inner.calls.Load() != 10 {
			t.Errorf("100 callers with room for 10: got %d immediate answers and %d store calls want 90 and 10", got, inner.calls.Load())
		}
		for range 90 {
			if got := <-answers; got != headgate.ReasonOverloaded {
				t.Fatalf("a caller beyond those: got %v want overloaded", got)
			}
		}
		for range 10 {
			if got := <-answers; got != headgate.ReasonTimedOut {
				t.Fatalf("a caller in flight: got %v want timed out", got)
			}
		}
		inner.clearFault()
		if d, err := l.Allow(background, "key"); err != nil || d.Degraded != headgate.ReasonNone {
			t.Errorf("afterwards: got %+v, error %v want room again", d, err)
		}
	})
}

// A store that panics releases its slot for calls in flight.
func TestPanicReleasesInFlightSlot(t *testing.T) {
	t.Parallel()
	inner := newFaultyStore()
	s := around(t, inner, &fallback.Options{MaxInFlight: 1})
	l := limiter(t, s, "", "10/1s", "")
	inner.set(func(context.Context, string) error { panic("broken") })
	func() {
		defer func() { _ = recover() }()
		l.AllowAt(background, noon.Time(), "key", 1)
	}()
	inner.clearFault()
	if _, err := l.AllowAt(background, noon.Time(), "key", 1); err != nil {
		t.Errorf("after a panic: got error %v want a decision", err)
	}
}

func TestBindRejectsInvalidRules(t *testing.T) {
	t.Parallel()
	s := around(t, newFaultyStore(), nil)
	rule := headgate.Rule{Limit: headgate.MustParseLimit("1/1s"), OnStoreError: headgate.FailLocal}
	if _, err := s.Bind(rule); !errors.Is(err, headgate.ErrUnsupported) || !strings.Contains(err.Error(), "memstore.New") {
		t.Errorf("local without a local store: got error %v want ErrUnsupported and a hint", err)
	}
	rule.OnStoreError = "sometimes"
	if _, err := s.Bind(rule); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("an unknown name: got error %v want ErrInvalidPolicy", err)
	}
}

func TestOptionsValidation(t *testing.T) {
	t.Parallel()
	if _, err := fallback.New(nil, nil); err == nil {
		t.Error("without a store: got no error want one")
	}
	for _, c := range []struct {
		opts fallback.Options
		want string
	}{
		{fallback.Options{Local: memstore.New(nil)}, "Instances"},
		{fallback.Options{Instances: -1}, "Instances is -1"},
		{fallback.Options{Instances: 100_001}, "Instances is 100001"},
		{fallback.Options{Budget: time.Microsecond}, "Budget is 1µs"},
		{fallback.Options{Budget: time.Hour}, "Budget is 1h"},
		{fallback.Options{ProbeEvery: -1}, "ProbeEvery is -1ns"},
		{fallback.Options{MaxInFlight: -1}, "MaxInFlight is -1"},
		{fallback.Options{Failures: -5}, "Failures is -5"},
	} {
		if _, err := fallback.New(newFaultyStore(), &c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v want one that says %q", c.opts, err, c.want)
		}
	}
}

func TestCloseClosesBothStores(t *testing.T) {
	t.Parallel()
	inner, local := newFaultyStore(), memstore.New(nil)
	s := around(t, inner, &fallback.Options{Local: local, Instances: 1})
	l := limiter(t, s, "", "10/1s", headgate.FailLocal)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for what, closed := range map[string]headgate.Store{"inner": inner, "local": local} {
		if _, err := closed.Bind(headgate.Rule{Limit: headgate.MustParseLimit("1/1s")}); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("the %s store: got error %v want ErrClosed", what, err)
		}
	}
	if d, err := l.AllowAt(background, noon.Time(), "key", 1); !errors.Is(err, headgate.ErrClosed) || d.Allowed {
		t.Errorf("after Close: got %+v, error %v want ErrClosed", d, err)
	}
}
