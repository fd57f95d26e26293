package fallback_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
)

// outageTest is a fallback store whose inner store a test can fail. Rules are bound
// directly, so a test has the reservation tokens.
type outageTest struct {
	t     *testing.T
	inner *faultyStore
	local *memstore.Store
	store *fallback.Store
}

func newOutageTest(t *testing.T) *outageTest {
	s := &outageTest{t: t, inner: newFaultyStore(), local: memstore.New(nil)}
	s.store = around(t, s.inner, &fallback.Options{Local: s.local, Instances: 2, Failures: 1 << 20})
	return s
}

func (s *outageTest) bind(a headgate.Algorithm, limit string, mode headgate.OnStoreError) headgate.Bound {
	s.t.Helper()
	b, err := s.store.Bind(headgate.Rule{
		Scope: string(a) + limit + string(mode), Name: string(mode), Limit: headgate.MustParseLimit(limit), Algorithm: a, OnStoreError: mode,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *outageTest) fail()    { s.inner.set(failWith(headgate.ReasonRefused)) }
func (s *outageTest) recover() { s.inner.clearFault() }

// requireRemaining fails the test unless the store that decides now has want units left.
func (s *outageTest) requireRemaining(b headgate.Bound, want int64, why string) {
	s.t.Helper()
	d, err := b.Apply(background, noon, "key", headgate.Peek, 0)
	if err != nil || d.Remaining != want {
		s.t.Errorf("%s: got %d remaining, error %v want %d", why, d.Remaining, err, want)
	}
}

func (s *outageTest) do(b headgate.Bound, v headgate.Verb, cost int64) headgate.Decision {
	s.t.Helper()
	d, err := b.Apply(background, noon, "key", v, cost)
	if err != nil {
		s.t.Fatalf("%v %d: %v", v, cost, err)
	}
	return d
}

func (s *outageTest) reserve(b headgate.Bound, cost int64) headgate.ReservationToken {
	s.t.Helper()
	d, token, err := b.Reserve(background, noon, "key", cost, time.Hour)
	if err != nil || !d.Allowed {
		s.t.Fatalf("reserve %d: got %+v, error %v want booked", cost, d, err)
	}
	return token
}

func (s *outageTest) cancel(b headgate.Bound, cost int64, token headgate.ReservationToken) headgate.Decision {
	s.t.Helper()
	d, err := b.Cancel(background, noon, "key", cost, token)
	if err != nil {
		s.t.Fatalf("cancel: %v", err)
	}
	return d
}

func TestCancelUsesStoreOfReservation(t *testing.T) {
	t.Parallel()
	for _, known := range algo.Rates() {
		a := known.Name
		if !a.CanReserve() {
			continue
		}
		s := newOutageTest(t)
		b := s.bind(a, "10/1m", headgate.FailLocal)
		s.do(b, headgate.Take, 10)
		storeToken := s.reserve(b, 3)
		s.fail()
		s.do(b, headgate.Take, 5)
		localToken := s.reserve(b, 2)
		localReset := s.do(b, headgate.Peek, 0).ResetAfter

		if d := s.cancel(b, 3, storeToken); d.Degraded != headgate.ReasonRefused || d.ResetAfter != localReset {
			t.Errorf("%s: cancelled during an outage of the reserving store: got %+v want the local key unchanged, %v", a, d, localReset)
		}
		s.recover()
		held := s.do(b, headgate.Peek, 0).ResetAfter
		if d := s.cancel(b, 2, localToken); d.Degraded != headgate.ReasonNone || d.ResetAfter != held {
			t.Errorf("%s: cancelled a local reservation: got %+v want the key in the store unchanged, %v", a, d, held)
		}
		if d := s.cancel(b, 3, storeToken); d.ResetAfter >= held {
			t.Errorf("%s: cancelled in the reserving store: got %v until full want less than %v", a, d.ResetAfter, held)
		}
		s.fail()
		if d := s.do(b, headgate.Peek, 0); d.ResetAfter >= localReset {
			t.Errorf("%s: the local reservation was not refunded: %v until full, before %v", a, d.ResetAfter, localReset)
		}
	}
}

func TestFailOpenReservationIsNotStored(t *testing.T) {
	t.Parallel()
	s := newOutageTest(t)
	b := s.bind("", "10/1m", headgate.FailOpen)
	s.do(b, headgate.Take, 10)
	s.reserve(b, 1)
	held := s.do(b, headgate.Peek, 0).ResetAfter
	s.fail()
	token := s.reserve(b, 5)
	if d := s.cancel(b, 5, token); !d.Allowed || d.Degraded != headgate.ReasonRefused {
		t.Errorf("cancelled during an outage: got %+v want allowed, refused", d)
	}
	s.recover()
	if d := s.cancel(b, 5, token); d.ResetAfter != held {
		t.Errorf("cancelled after recovery: got %v until full want %v: the store has no such reservation", d.ResetAfter, held)
	}
}

func TestFailClosedReservationReturnsError(t *testing.T) {
	t.Parallel()
	s := newOutageTest(t)
	b := s.bind("", "10/1m", headgate.FailClosed)
	token := s.reserve(b, 1)
	s.fail()
	if _, _, err := b.Reserve(background, noon, "key", 1, 0); !errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("reserve: got error %v want ErrStoreUnavailable", err)
	}
	if _, err := b.Cancel(background, noon, "key", 1, token); !errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("cancel: got error %v want ErrStoreUnavailable", err)
	}
}

// What cannot be reserved cannot be reserved during an outage either.
func TestReserveUnsupportedDuringOutage(t *testing.T) {
	t.Parallel()
	for _, mode := range []headgate.OnStoreError{headgate.FailOpen, headgate.FailLocal} {
		s := newOutageTest(t)
		s.store = around(t, s.inner, &fallback.Options{Local: s.local, Instances: 2, Budget: time.Millisecond})
		b := s.bind(headgate.FixedWindow, "10/1m", mode)
		s.fail()
		for s.do(b, headgate.Peek, 0).Degraded != headgate.ReasonBreakerOpen {
			time.Sleep(100 * time.Microsecond) // until the breaker is open
		}
		if b.CanReserve() {
			t.Errorf("%v: a window reports CanReserve", mode)
		}
		_, _, err := b.Reserve(background, noon, "key", 1, 0)
		_, err2 := b.Cancel(background, noon, "key", 1, headgate.ReservationToken{-5})
		if !errors.Is(err, headgate.ErrUnsupported) || !errors.Is(err2, headgate.ErrUnsupported) {
			t.Errorf("%v: got errors %v and %v want ErrUnsupported", mode, err, err2)
		}
	}
}

func TestRefundAndResetUseDecidingStore(t *testing.T) {
	t.Parallel()
	s := newOutageTest(t)
	b := s.bind("", "10/1m", headgate.FailLocal)
	s.do(b, headgate.Take, 8)
	s.fail()
	s.requireRemaining(b, 5, "an unused share")
	s.do(b, headgate.Refund, 8)
	s.requireRemaining(b, 5, "a refund of units that the store granted does not change a full share")
	s.do(b, headgate.Take, 4)
	s.do(b, headgate.Refund, 1)
	s.requireRemaining(b, 2, "4 taken and 1 refunded of a share of 5")
	s.do(b, headgate.Reset, 0)
	s.requireRemaining(b, 5, "a reset share")
	s.recover()
	s.requireRemaining(b, 2, "the store's own state")

	open := s.bind("", "10/1m", headgate.FailOpen)
	s.fail()
	for _, v := range []headgate.Verb{headgate.Take, headgate.Peek, headgate.Refund, headgate.Reset} {
		if d := s.do(open, v, 3); !d.Allowed || d.Degraded != headgate.ReasonRefused {
			t.Errorf("open, %v: got %+v want allowed, refused", v, d)
		}
	}
}

// A bound rule reports the whole limit, also while a share of it decides.
func TestBoundDescribesRuleDuringOutage(t *testing.T) {
	t.Parallel()
	s := newOutageTest(t)
	b := s.bind("", "10/1m", headgate.FailLocal)
	s.fail()
	if b.Limit() != 10 || b.Spacing(1) != 6*time.Second || !b.CanReserve() {
		t.Errorf("got limit %d, spacing %v, can reserve %v want 10, 6s, true", b.Limit(), b.Spacing(1), b.CanReserve())
	}
}

func TestMultipleRulesDuringOutage(t *testing.T) {
	t.Parallel()
	const closed, open, local = headgate.FailClosed, headgate.FailOpen, headgate.FailLocal
	for _, c := range []struct {
		name  string
		modes []headgate.OnStoreError
		cost  int64
		want  string // allowed and limit for each; empty if there is none
	}{
		{"all open", []headgate.OnStoreError{open, open}, 100, "[true 10 true 10]"},
		{"all local", []headgate.OnStoreError{local, local}, 5, "[true 5 true 5]"},
		{"local denies", []headgate.OnStoreError{local, open, local}, 6, "[false 5 true 10 false 5]"},
		{"local and open", []headgate.OnStoreError{open, local}, 5, "[true 10 true 5]"},
		{"closed", []headgate.OnStoreError{open, local, closed}, 1, ""},
	} {
		s := newOutageTest(t)
		ops := make([]headgate.Op, len(c.modes))
		for i, mode := range c.modes {
			ops[i] = headgate.Op{Bound: s.bind("", fmt.Sprintf("10/%dm", i+1), mode), Key: "key", Cost: c.cost}
		}
		s.fail()
		decisions := make([]headgate.Decision, len(ops))
		err := s.store.ApplyAll(background, noon, ops, false, decisions)
		var got []any
		for i, d := range decisions {
			if got = append(got, d.Allowed, d.Limit); err == nil && d.Degraded != headgate.ReasonRefused {
				t.Errorf("%s: decision %d: got %+v want degraded", c.name, i+1, d)
			}
		}
		if c.want == "" {
			if !errors.Is(err, headgate.ErrStoreUnavailable) {
				t.Errorf("%s: got error %v want ErrStoreUnavailable", c.name, err)
			}
		} else if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, error %v want %s", c.name, got, err, c.want)
		}
		for i, mode := range c.modes { // all or none: if one rule denies, no rule spends
			if want := int64(5); mode == local {
				if err == nil && decisions[i].Allowed {
					want -= c.cost
				}
				s.requireRemaining(ops[i].Bound, want, fmt.Sprintf("%s: rule %d", c.name, i+1))
			}
		}
		s.recover()
		if err := s.store.ApplyAll(background, noon, ops[:1], false, decisions[:1]); err != nil || decisions[0].Degraded != headgate.ReasonNone {
			t.Errorf("%s: recovered: got %+v, error %v want the store's decision", c.name, decisions[0], err)
		}
	}
}

func TestApplyAllRejectsBoundsOfOtherStores(t *testing.T) {
	t.Parallel()
	s, other := newOutageTest(t), newOutageTest(t)
	other.store = around(t, s.inner, nil) // even around the same inner store
	ops := []headgate.Op{{Bound: other.bind("", "10/1m", ""), Key: "key", Cost: 1}}
	if err := s.store.ApplyAll(background, noon, ops, false, make([]headgate.Decision, 1)); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("an op of another store: got error %v want ErrInvalidPolicy", err)
	}
	ops[0].Bound = s.bind("", "10/1m", "")
	if err := s.store.ApplyAll(background, noon, ops, false, nil); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("an op without a decision: got error %v want ErrInvalidPolicy", err)
	}
}

// The error of a local store that cannot decide contains the error of the inner store.
func TestLocalStoreFails(t *testing.T) {
	t.Parallel()
	s := newOutageTest(t)
	b := s.bind("", "10/1m", headgate.FailLocal)
	s.local.Close()
	s.fail()
	if _, err := b.Apply(background, noon, "key", headgate.Take, 1); !errors.Is(err, headgate.ErrClosed) || !errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("got error %v want ErrClosed and ErrStoreUnavailable", err)
	}
	ops := []headgate.Op{{Bound: b, Key: "key", Cost: 1}}
	if err := s.store.ApplyAll(background, noon, ops, false, make([]headgate.Decision, 1)); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("several: got error %v want ErrClosed", err)
	}
}

// T14: a client that keeps sending new keys during an outage cannot exceed the bound of
// the local store.
func TestLocalMemoryIsBounded(t *testing.T) {
	t.Parallel()
	inner, local := newFaultyStore(), memstore.New(&memstore.Options{MaxBytes: 1 << 20})
	s := around(t, inner, &fallback.Options{Local: local, Instances: 4})
	l := limiter(t, s, "", "10/1m", headgate.FailLocal)
	inner.set(failWith(headgate.ReasonUnreachable))
	for i := range 200_000 {
		d, err := l.AllowAt(background, noon.Time(), fmt.Sprint("key ", i), 1)
		if err != nil || d.Degraded == headgate.ReasonNone {
			t.Fatalf("key %d: got %+v, error %v want a local decision", i, d, err)
		}
	}
	if got := local.Stats().Bytes; got > 1<<20 {
		t.Errorf("200,000 keys: got %d bytes want at most 1 MiB", got)
	}
}
