package memcachedstore

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
)

// applyHold executes verb on one key of b.
func applyHold(t *testing.T, b *bound, verb headgate.HoldVerb, key string, id byte, n int64) (headgate.HoldResult, error) {
	t.Helper()
	results := make([]headgate.HoldResult, 1)
	_, err := b.store.ApplyHolds(t.Context(), testInstant, verb, time.Minute, []headgate.HoldOp{holdOpOf(b, key, id, n)}, results)
	return results[0], errors.Join(err, results[0].Err)
}

func holdOpOf(b *bound, key string, id byte, n int64) headgate.HoldOp {
	return headgate.HoldOp{Op: headgate.Op{Bound: b, Key: key, Cost: n}, ID: headgate.HoldID{id}}
}

func mustApplyHold(t *testing.T, b *bound, verb headgate.HoldVerb, key string, id byte, n int64) headgate.HoldResult {
	t.Helper()
	result, err := applyHold(t, b, verb, key, id, n)
	if err != nil {
		t.Fatalf("%v %d: %v", verb, n, err)
	}
	return result
}

// valueOf returns the stored value of a key.
func valueOf(t *testing.T, b *bound, key string) []byte {
	t.Helper()
	name := b.scope.digest(key).name()
	items, err := b.store.fetch([]string{name})
	if err != nil || items[name] == nil {
		t.Fatalf("read %q: got %v, error %v want a value", key, items, err)
	}
	return items[name].Value
}

// An open hold needs at most 48 bytes. A key without open holds has the same value as
// before its first hold.
func TestSizeOfHolds(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, a := range allAlgorithms() {
		if !a.CanHold() {
			continue
		}
		b := mustBind(t, mustNew(t, nil, server.Addr()), "size", a, "1000000000/1h")
		mustTake(t, b, testInstant, "key", 1)
		before := len(valueOf(t, b, "key"))
		mustApplyHold(t, b, headgate.OpenHold, "key", 1, 300_000_000)
		one := len(valueOf(t, b, "key"))
		mustApplyHold(t, b, headgate.OpenHold, "key", 2, 300_000_000)
		if got := len(valueOf(t, b, "key")) - one; got > 48 {
			t.Errorf("%s: an open hold needs %d bytes, want at most 48", a, got)
		}
		mustApplyHold(t, b, headgate.CommitHold, "key", 1, 0)
		mustApplyHold(t, b, headgate.CommitHold, "key", 2, 0)
		if got := len(valueOf(t, b, "key")); got != before {
			t.Errorf("%s: without open holds, the value has %d bytes, want %d", a, got, before)
		}
	}
}

// A process that stops in a commit leaves an open hold with a record. The hold can be
// committed, and only once.
func TestCommitInterrupted(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	b := mustBind(t, mustNew(t, nil, server.Addr()), "rule", headgate.TokenBucket, "10/1h")
	mustApplyHold(t, b, headgate.OpenHold, "key", 1, 8)
	key := b.scope.digest("key")
	sums := algo.RequestChecksums{}
	sums.Add(headgate.HoldID{1}, binary.BigEndian.Uint64(key[:]), 8)
	c := &cell{key: key}
	c.addEnded(&holdOp{bound: b}, algo.Hold{ID: sums.ID(headgate.HoldID{1}), Deadline: int64(testInstant) + time.Minute.Microseconds()})
	if err := (&round{store: b.store, earliest: int64(testInstant), callerInstant: true}).writeRecords(c); err != nil {
		t.Fatal(err)
	}
	for i, replayed := range []bool{false, true, true} {
		if got := mustApplyHold(t, b, headgate.CommitHold, "key", 1, 3); got.Replayed != replayed || got.Remaining != 7 {
			t.Errorf("commit %d: got %+v want 7 remaining and replayed %t", i+1, got, replayed)
		}
	}
	if got := mustApplyHold(t, b, headgate.OpenHold, "key", 1, 8); !got.Replayed || got.Remaining != 7 {
		t.Errorf("hold with the same id: got %+v want 7 remaining, replayed", got)
	}
	if _, err := applyHold(t, b, headgate.OpenHold, "key", 1, 7); !errors.Is(err, headgate.ErrHoldConflict) {
		t.Errorf("hold with the same id and other units: got error %v want ErrHoldConflict", err)
	}
}

// Between the two writes of a hold on two keys, another process changes both, so that the
// hold is denied. The first key is then as if the hold had never been opened.
func TestCancelUnopened(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, a := range allAlgorithms() {
		if !a.CanHold() {
			continue
		}
		t.Run(string(a), func(t *testing.T) {
			other := mustBind(t, mustNew(t, nil, server.Addr()), "unopened", a, "10/1h")
			first, second := orderedKeys(other)
			writes := 0
			s := newTappedStore(t, nil, server.Addr(), func(verb, _ string) {
				if verb != "add" && verb != "cas" {
					return
				}
				if writes++; writes == 2 {
					mustTake(t, other, testInstant, first, 1)
					mustTake(t, other, testInstant, second, 8)
				}
			})
			b := mustBind(t, s, "unopened", a, "10/1h")
			ops := []headgate.HoldOp{holdOpOf(b, first, 1, 3), holdOpOf(b, second, 1, 3)}
			results := make([]headgate.HoldResult, 2)
			if _, err := s.ApplyHolds(t.Context(), testInstant, headgate.OpenHold, time.Minute, ops, results); err != nil {
				t.Fatal(err)
			}
			if results[0].Allowed && results[1].Allowed {
				t.Errorf("hold of 3 with 2 left: got %+v want denied", results)
			}
			if got := remaining(t, other, testInstant, first); got != 9 {
				t.Errorf("the key written first: got %d remaining want 9", got)
			}
			if got := remaining(t, other, testInstant, second); got != 2 {
				t.Errorf("the key written second: got %d remaining want 2", got)
			}
			if _, err := applyHold(t, other, headgate.CommitHold, first, 1, 0); !errors.Is(err, headgate.ErrUnknownHold) {
				t.Errorf("commit: got error %v want ErrUnknownHold", err)
			}
		})
	}
}

// The value of a key with the maximum number of holds, and with a log that had the
// maximum number of entries before, fits into an item of memcached.
func TestMaxHoldsOfAnItem(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	s := mustNew(t, &Options{Timeout: longTimeout}, server.Addr())
	b, err := s.Bind(headgate.Rule{
		Scope: "many", Name: "many", Limit: headgate.MustParseLimit("1000000000/366d"), Algorithm: headgate.SlidingLog,
		Holds: headgate.HoldSettings{MaxOpen: headgate.MaxOpenHolds},
	})
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]headgate.HoldOp, MaxOpenHolds)
	for i := range ops {
		ops[i] = holdOpOf(b.(*bound), "key", 0, 8_000)
		ops[i].ID = headgate.HoldID{byte(i), byte(i >> 8), 1}
	}
	d, limit := b.(*bound).scope.digest("key"), b.Limit()
	c := cell{log: &algo.Log{}, unusedAt: int64(testInstant) + headgate.MaxPeriod.Microseconds()}
	for i := range int64(maxEntries) {
		c.log.Append(int64(testInstant)-(maxEntries-i)*200_000_000, 7_000)
	}
	r := &round{store: s, earliest: int64(testInstant), callerInstant: true}
	if err := r.put(&cell{key: d, name: d.name()}, c.value()); err != nil {
		t.Fatal(err)
	}
	results := make([]headgate.HoldResult, len(ops))
	if _, err := s.ApplyHolds(t.Context(), testInstant, headgate.OpenHold, time.Hour, ops, results); err != nil {
		t.Fatal(err)
	}
	if want := limit - MaxOpenHolds*8_000 - maxEntries*7_000; results[0].Remaining != want {
		t.Errorf("after %d holds: got %+v want %d remaining", len(ops), results[0], want)
	}
	if _, err := applyHold(t, b.(*bound), headgate.OpenHold, "key", 9, 1); !errors.Is(err, headgate.ErrTooManyHolds) {
		t.Errorf("one hold more than %d: got error %v want ErrTooManyHolds", MaxOpenHolds, err)
	}
}

func TestValueWithHolds(t *testing.T) {
	t.Parallel()
	holds := []algo.Hold{
		{ID: headgate.HoldID{1}, Deadline: maxA, Least: algo.Debt{Whole: maxA, Rest: 5}},
		{ID: headgate.HoldID{2}, ChargedAt: maxA},
	}
	holds[0].Set(1, algo.PlainHold)
	holds[1].Set(maxA, algo.PlainHold)
	for _, c := range []cell{
		{state: algo.State{A: 1, B: 2, C: 3}, unusedAt: 4},
		{log: &algo.Log{}},
		{log: logOf(algo.LogEntry{At: 5, Total: 1}, algo.LogEntry{At: 6, Total: 2}), unusedAt: 7},
	} {
		c.ledger = algo.Ledger{Holds: holds, Unit: algo.Unit{P: maxA, D: 7}, Changes: []algo.LimitChange{
			{HoldsBefore: 1, Unit: algo.Unit{P: 8, D: maxA}, Cut: 9, Least: algo.Debt{Whole: maxA, Rest: 3}},
			{HoldsBefore: 2, Unit: algo.Unit{P: 1, D: 1}},
		}}
		got := cell{raw: c.value()}
		if err := got.decode(c.log != nil); err != nil {
			t.Errorf("%+v: got error %v", c, err)
			continue
		}
		if got.state != c.state || got.unusedAt != c.unusedAt || !reflect.DeepEqual(got.ledger, c.ledger) || c.log != nil && !slices.Equal(entriesOf(got.log), entriesOf(c.log)) {
			t.Errorf("got %+v want %+v", got, c)
		}
		for n := range got.raw {
			if cut := (&cell{raw: got.raw[:n]}); c.log == nil && cut.decode(false) == nil {
				t.Errorf("the first %d bytes of %+v: got no error want one", n, c)
			}
		}
	}
}

// Between the reads of the value and of the record, another process opens and commits the
// hold. The replayed result has the decision after that.
func TestReplayedResultIsCurrent(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	other := mustBind(t, mustNew(t, nil, server.Addr()), "rule", headgate.TokenBucket, "10/1h")
	record := recordsKey(other.scope.digest("key")).name()
	between := once(func() {
		mustApplyHold(t, other, headgate.OpenHold, "key", 1, 5)
		mustApplyHold(t, other, headgate.CommitHold, "key", 1, 3)
	})
	s := newTappedStore(t, nil, server.Addr(), func(_, name string) {
		if name == record {
			between()
		}
	})
	got := mustApplyHold(t, mustBind(t, s, "rule", headgate.TokenBucket, "10/1h"), headgate.CommitHold, "key", 1, 0)
	if !got.Replayed || got.Remaining != 7 {
		t.Errorf("got %+v want 7 remaining, replayed", got)
	}
}

// A hold is not opened and committed in the same round.
func TestRoundLength(t *testing.T) {
	t.Parallel()
	take := &job{multi: &multiKey{}}
	hold := func(v headgate.HoldVerb, id byte) *job {
		return &job{holds: &holdRequest{verb: v, ops: []holdOp{{id: headgate.HoldID{id}}}}}
	}
	const open, commit, extend = headgate.OpenHold, headgate.CommitHold, headgate.ExtendHold
	for _, tt := range []struct {
		queue []*job
		want  int
	}{
		{[]*job{take, take}, 2},
		{[]*job{hold(commit, 1), hold(open, 1), hold(extend, 1), hold(commit, 2)}, 4},
		{[]*job{take, hold(open, 1), hold(open, 2), hold(commit, 1), take}, 3},
	} {
		if got := roundLength(tt.queue); got != tt.want {
			t.Errorf("got %d of %d jobs want %d", got, len(tt.queue), tt.want)
		}
	}
}
