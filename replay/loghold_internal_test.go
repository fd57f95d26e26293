package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// operateAll executes operations on the key k, 2 ms apart, each in a batch of its own. It
// returns the values of the field error.
func operateAll(t *testing.T, l *policyReplay, from int64, ops ...operation) (errorCodes []string) {
	t.Helper()
	for i := range ops {
		q := request{at: from + int64(i)*2000, key: "k", op: &ops[i]}
		_, out, err := l.operate(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		l.holds.sweep(headgate.Instant(q.at).Time())
		errorCodes = append(errorCodes, out.errorCode)
	}
	return errorCodes
}

// TestEndedHoldsAreForgotten: memory does not grow with the number of holds that have
// ended or expired, and an operation on one of them still returns which error it is.
func TestEndedHoldsAreForgotten(t *testing.T) {
	t.Parallel()
	open := func() (headgate.Store, error) { return memstore.New(nil), nil }
	o := &Options{Memory: MinMemory}
	l, err := newPolicyReplay(headgate.MustPolicy("1000000/s"), open, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.store.Close()
	const holds, maxNames = 60_000, MinMemory / expiredHoldsShare / expiredHoldBytes
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	for i := range int64(holds) {
		id := fmt.Sprint(i)
		ops := []operation{{Verb: "hold", ID: id, Cost: 1, TTL: 1000}, {Verb: "hold", ID: id, Cost: 1, TTL: 1000}}
		if i%2 == 0 {
			ops[1] = operation{Verb: "reset"}
		}
		operateAll(t, l, at, ops...)
		at += 4000
		if n, names := len(l.holds.open), len(l.holds.recent)+len(l.holds.older); n > firstSweep || names > maxNames {
			t.Fatalf("%d holds and %d names after %d holds; want at most %d and %d", n, names, i+1, firstSweep, maxNames)
		}
	}
	for id, want := range map[string]string{fmt.Sprint(holds - 1): "expired_hold", fmt.Sprint(holds - maxNames/3): "expired_hold", "other": "unknown_hold", "0": "unknown_hold"} {
		if got := operateAll(t, l, at, operation{Verb: "commit", ID: id})[0]; got != want {
			t.Errorf("hold %s: got %q want %q", id, got, want)
		}
	}
}

// A hold that is open or was extended is not removed, and a hold that was opened again
// under the name of an expired one is found.
func TestOpenHoldsAreKept(t *testing.T) {
	t.Parallel()
	open := func() (headgate.Store, error) { return memstore.New(nil), nil }
	l, err := newPolicyReplay(headgate.MustPolicy("10/h"), open, &Options{Memory: MinMemory})
	if err != nil {
		t.Fatal(err)
	}
	defer l.store.Close()
	l.holds.sweepAt = 0 // sweep after each operation
	sweep := func() { l.holds.sweepAt = 0 }
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	for i, op := range []struct {
		operation
		want string
	}{
		{operation{Verb: "hold", ID: "a", Cost: 1, TTL: 3000}, ""},
		{operation{Verb: "extend", ID: "a", TTL: 10_000}, ""},
		{operation{Verb: "hold", ID: "b", Cost: 1, TTL: 1000}, ""},
		{operation{Verb: "commit", ID: "a"}, ""},
		{operation{Verb: "commit", ID: "a"}, ""}, // replayed
		{operation{Verb: "commit", ID: "b"}, "expired_hold"},
		{operation{Verb: "commit", ID: "a"}, "expired_hold"},
		{operation{Verb: "hold", ID: "a", Cost: 1, TTL: 9000}, ""},
		{operation{Verb: "commit", ID: "a"}, ""},
	} {
		sweep()
		if got := operateAll(t, l, at+int64(i)*2000, op.operation)[0]; got != op.want {
			t.Errorf("operation %d, %+v: got %q want %q", i+1, op.operation, got, op.want)
		}
	}
}
