package algo_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// TestHoldsExpireTogether ends as many holds at one instant as a key may have. The time
// must not grow with the square of their number: the test would take minutes.
func TestHoldsExpireTogether(t *testing.T) {
	const holds, step = headgate.MaxOpenHolds, 10 // instants, in µs
	for _, a := range algo.All() {
		if !a.Name.CanHold() {
			continue
		}
		l := headgate.Limit{Rate: 1, Period: time.Hour, Burst: 2 * holds} // nothing refills in this test
		switch {
		case a.Name.OnlyHolds():
			l = headgate.Limit{Rate: 2 * holds, Concurrent: true}
		case a.Name.Windowed():
			l = headgate.Limit{Rate: 2 * holds, Period: 24 * time.Hour}
		}
		k := newHoldKey(a, l)
		account, start := k.account(), int64(1e15)
		for i := range int64(holds) {
			now := start + i*step
			if !k.take(account, now, 1) {
				t.Fatalf("%s: hold %d is denied", a.Name, i)
			}
			deadline := start + 1e9 + i%2*1e9
			k.ledger.Open(account, now, numbered(i), 1, deadline)
		}
		for expired, now := range []int64{start + 1e9 - 1, start + 1e9, start + 2e9} {
			ended := k.ledger.Expire(account, now, true)
			k.save(account)
			held := int64(holds) - int64(expired)*holds/2
			if want := min(expired, 1) * holds / 2; ended != want || int64(len(k.ledger.Holds)) != held {
				t.Fatalf("%s: %d holds ended and %d remain, want %d and %d", a.Name, ended, len(k.ledger.Holds), want, held)
			}
			if got, want := k.peek(now, 0).Remaining, l.Capacity()-held; got != want {
				t.Errorf("%s: after %d of the deadlines: got %d remaining, want %d", a.Name, expired, got, want)
			}
		}
	}
}

func numbered(i int64) (id headgate.HoldID) {
	binary.BigEndian.PutUint64(id[:], uint64(i))
	return id
}
