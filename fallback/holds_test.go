package fallback_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
)

// holdTest is an outageTest with one limiter.
type holdTest struct {
	*outageTest
	limiter *headgate.Limiter
}

func newHoldTest(t *testing.T, a headgate.Algorithm, mode headgate.OnStoreError) *holdTest {
	s := newOutageTest(t)
	return &holdTest{s, limiter(t, s.store, a, "10/1h", mode)}
}

func (s *holdTest) hold(cost int64) *headgate.Hold {
	s.t.Helper()
	h, err := s.limiter.HoldAt(background, noon.Time(), "key", cost, time.Hour)
	if err != nil || !h.OK() {
		s.t.Fatalf("hold %d: got %+v, error %v want a hold", cost, h, err)
	}
	return h
}

func (s *holdTest) commit(h *headgate.Hold, actual int64) headgate.HoldResult {
	s.t.Helper()
	d, err := h.CommitAt(background, noon.Time(), actual)
	if err != nil {
		s.t.Fatalf("commit %d: got error %v want none", actual, err)
	}
	return d
}

// requireLeft fails the test unless the store that decides now has want units left.
func (s *holdTest) requireLeft(want int64, why string) {
	s.t.Helper()
	if d, err := s.limiter.PeekAt(background, noon.Time(), "key", 0); err != nil || d.Remaining != want {
		s.t.Errorf("%s: got %d remaining, error %v want %d", why, d.Remaining, err, want)
	}
}

func forEachHoldAlgorithm(t *testing.T, test func(t *testing.T, a headgate.Algorithm)) {
	t.Parallel()
	for _, a := range algo.Rates() {
		if a.Name.CanHold() {
			t.Run(string(a.Name), func(t *testing.T) { test(t, a.Name) })
		}
	}
}

func TestHoldFailsClosed(t *testing.T) {
	t.Parallel()
	s := newHoldTest(t, "", headgate.FailClosed)
	h := s.hold(4)
	s.fail()
	if _, err := s.limiter.HoldAt(background, noon.Time(), "key", 1, time.Hour); !errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("hold during the outage: got error %v want ErrStoreUnavailable", err)
	}
	if _, err := h.CommitAt(background, noon.Time(), 1); !errors.Is(err, headgate.ErrStoreUnavailable) {
		t.Errorf("commit during the outage: got error %v want ErrStoreUnavailable", err)
	}
	s.recover()
	s.commit(h, 1)
	s.requireLeft(9, "a hold was committed with 1 after the outage")
}

func TestHoldFailsOpen(t *testing.T) {
	t.Parallel()
	s := newHoldTest(t, "", headgate.FailOpen)
	before := s.hold(4)
	s.fail()
	during := s.hold(100)
	if d := during.Decision(); d.Degraded != headgate.ReasonRefused {
		t.Errorf("hold during the outage: got %+v want a degraded decision", d)
	}
	if d := s.commit(before, 1); d.Degraded != headgate.ReasonRefused {
		t.Errorf("commit during the outage: got %+v want a degraded decision", d)
	}
	granted, d, err := s.limiter.TakeUpToAt(background, noon.Time(), "key", 7)
	if err != nil || granted != 7 || d.Degraded != headgate.ReasonRefused {
		t.Errorf("take up to 7 during the outage: got %d, %+v, %v want 7 granted", granted, d, err)
	}
	s.recover()
	s.requireLeft(6, "a commit during the outage changed nothing")
	if d := s.commit(during, 50); d.Degraded != headgate.ReasonRefused {
		t.Errorf("commit of a hold that nothing was charged for: got %+v want its decision", d)
	}
	s.commit(before, 1)
	s.requireLeft(9, "the commit was repeated after the outage")
}

// A hold that was allowed without a charge is in no store, so it cannot expire. A hold of
// the local store expires.
func TestCommitOfDegradedHoldAfterDeadline(t *testing.T) {
	t.Parallel()
	for mode, want := range map[headgate.OnStoreError]error{headgate.FailOpen: nil, headgate.FailLocal: headgate.ErrExpiredHold} {
		s := newHoldTest(t, "", mode)
		s.fail()
		h := s.hold(4)
		s.recover()
		late := noon.Time().Add(time.Hour)
		d, err := h.CommitAt(background, late, 1)
		if !errors.Is(err, want) || want == nil && (err != nil || d.Degraded != headgate.ReasonRefused) {
			t.Errorf("%s: commit at the deadline: got %+v, error %v want error %v", mode, d, err, want)
		}
		later, err := headgate.ExtendAllAt(background, late, time.Hour, h)
		if err != nil || !errors.Is(later[0].Err, want) || want == nil && !h.ExpiresAt().Equal(late.Add(time.Hour)) {
			t.Errorf("%s: extend at the deadline: got %+v, error %v want error %v", mode, later, err, want)
		}
		if d, err := s.limiter.PeekAt(background, late, "key", 0); err != nil || d.Remaining != 10 {
			t.Errorf("%s: got %+v, error %v want 10 remaining", mode, d, err)
		}
	}
}

// While or after a failure mode decides, a commit returns the units above the amount that
// a limit has not counted. After the outage, the store counts those of its own holds.
func TestCommitAboveAmountOfDegradedHold(t *testing.T) {
	t.Parallel()
	for mode, want := range map[headgate.OnStoreError][]int64{
		headgate.FailOpen: {5, 3, 0, 3}, headgate.FailLocal: {5, 0, 0, 0},
	} {
		s := newHoldTest(t, "", mode)
		before := s.hold(4)
		s.fail()
		during, later := s.hold(2), s.hold(2)
		got := []headgate.HoldResult{s.commit(before, 9), s.commit(during, 5)}
		s.recover()
		got = append(got, s.commit(before, 9), s.commit(later, 5))
		for i, r := range got {
			if r.Uncounted != want[i] || r.Uncounted > 0 && r.Degraded == headgate.ReasonNone {
				t.Errorf("%s, commit %d: got %+v want %d units not counted", mode, i+1, r, want[i])
			}
		}
		s.requireLeft(1, "the store has counted the commit of its hold")
	}
}

// The commit of a local hold has an effect during the outage and can be repeated.
func TestCommitOfLocalHoldIsRepeated(t *testing.T) {
	t.Parallel()
	s := newHoldTest(t, "", headgate.FailLocal)
	s.fail()
	h := s.hold(4)
	s.commit(h, 1)
	s.requireLeft(4, "the hold was committed with 1 of 5")
	if d := s.commit(h, 1); !d.Replayed {
		t.Errorf("repeated during the outage: got %+v want a replayed commit", d)
	}
	s.recover()
	if d := s.commit(h, 1); !d.Replayed {
		t.Errorf("repeated after the outage: got %+v want a replayed commit", d)
	}
}

// A local hold that has been lost, here by a reset, is an error.
func TestCommitOfLostLocalHold(t *testing.T) {
	t.Parallel()
	s := newHoldTest(t, "", headgate.FailLocal)
	s.fail()
	h := s.hold(4)
	if _, err := s.limiter.ResetAt(background, noon.Time(), "key"); err != nil {
		t.Fatal(err)
	}
	s.recover()
	_, err := h.CommitAt(background, noon.Time(), 1)
	if !errors.Is(err, headgate.ErrUnknownHold) || !strings.Contains(err.Error(), "charge the actual cost with a debit") {
		t.Errorf("got error %v want ErrUnknownHold with what to do", err)
	}
}

// A hold is committed in the store that opened it.
func TestHoldFailsLocal(t *testing.T) {
	forEachHoldAlgorithm(t, func(t *testing.T, a headgate.Algorithm) {
		s := newHoldTest(t, a, headgate.FailLocal)
		before := s.hold(8)
		s.fail()
		during := s.hold(4) // of 5, the share of this instance
		if d := during.Decision(); d.Degraded != headgate.ReasonRefused || d.Remaining != 1 {
			t.Errorf("hold during the outage: got %+v want a decision of the local store", d)
		}
		if h, err := s.limiter.HoldAt(background, noon.Time(), "key", 2, time.Hour); err != nil || h.OK() {
			t.Errorf("hold of 2 with 1 left: got %+v, error %v want denied", h, err)
		}
		if d := s.commit(before, 1); d.Degraded != headgate.ReasonRefused {
			t.Errorf("commit during the outage: got %+v want a degraded decision", d)
		}
		s.requireLeft(1, "the hold that was committed is not in the local store")
		s.recover()
		s.requireLeft(2, "a commit during the outage changed nothing in the store")
		s.commit(during, 1)
		s.requireLeft(2, "the commit of a local hold changed nothing in the store")
		s.commit(before, 1)
		s.requireLeft(9, "the commit was repeated after the outage")
		s.fail()
		s.requireLeft(4, "a local hold was committed with 1 after the outage")
	})
}

func TestLocalHoldIsExtended(t *testing.T) {
	t.Parallel()
	s := newHoldTest(t, "", headgate.FailLocal)
	s.fail()
	h := s.hold(4)
	s.recover()
	if _, err := h.ExtendAt(background, noon.Time(), 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	late := noon.Time().Add(90 * time.Minute)
	if d, err := h.CommitAt(background, late, 1); err != nil || d.Replayed {
		t.Errorf("commit after the first deadline: got %+v, error %v want a commit", d, err)
	}
	if _, err := h.ExtendAt(background, late, time.Hour); !errors.Is(err, headgate.ErrUnknownHold) {
		t.Logf("extension of a hold that was committed: error %v", err)
	}
}

// The reply of the store is lost after it has opened the hold, so the local store opens
// it as well. A commit ends both.
func TestHoldInBothStores(t *testing.T) {
	forEachHoldAlgorithm(t, func(t *testing.T, a headgate.Algorithm) {
		s := newHoldTest(t, a, headgate.FailLocal)
		s.inner.losesReplies.Store(true)
		h := s.hold(4)
		s.inner.losesReplies.Store(false)
		s.requireLeft(6, "the store has opened the hold")
		s.commit(h, 1)
		s.requireLeft(9, "the hold was committed in the store")
		s.fail()
		s.requireLeft(4, "the hold was committed in the local store")
	})
}

func TestHoldOfSeveralModes(t *testing.T) {
	t.Parallel()
	s := newOutageTest(t)
	check := func(mode headgate.OnStoreError, cost int64) headgate.Check {
		return headgate.Check{Limiter: limiter(t, s.store, "", "10/1h", mode), Key: string(mode), Cost: cost}
	}
	s.fail()
	for _, tt := range []struct {
		name   string
		checks []headgate.Check
		ok     bool
		err    error
	}{
		{"one fails closed", []headgate.Check{check(headgate.FailLocal, 1), check(headgate.FailClosed, 1)}, false, headgate.ErrStoreUnavailable},
		{"open and local", []headgate.Check{check(headgate.FailOpen, 100), check(headgate.FailLocal, 5)}, true, nil},
		{"denied locally", []headgate.Check{check(headgate.FailOpen, 100), check(headgate.FailLocal, 1)}, false, nil},
	} {
		h, err := headgate.HoldAllAt(background, noon.Time(), &headgate.HoldOptions{TTL: time.Hour}, tt.checks...)
		if !errors.Is(err, tt.err) || err == nil && h.OK() != tt.ok {
			t.Errorf("%s: got %+v, error %v want %t, error %v", tt.name, h, err, tt.ok, tt.err)
		}
	}
}

// plainStore is a store whose only methods are those of Store.
type plainStore struct{ headgate.Store }

func TestStoreWithoutHolds(t *testing.T) {
	t.Parallel()
	l := limiter(t, around(t, plainStore{memstore.New(nil)}, nil), "", "10/1h", headgate.FailOpen)
	if _, err := l.Hold(background, "key", 1, time.Hour); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("inner store without holds: got error %v want ErrUnsupported", err)
	}
	inner := newFaultyStore()
	l = limiter(t, around(t, inner, &fallback.Options{Local: plainStore{memstore.New(nil)}, Instances: 1}), "", "10/1h", headgate.FailLocal)
	inner.set(failWith(headgate.ReasonRefused))
	if _, err := l.Hold(background, "key", 1, time.Hour); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("local store without holds: got error %v want ErrUnsupported", err)
	}
}
