package algo_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// FuzzStep executes fuzzed requests on a key with the Go and the Lua implementation of
// an algorithm. They must agree, a state must be in its documented ranges, and
// RetryAfter of a denial must be exact.
func FuzzStep(f *testing.F) {
	life := func(moves ...[3]uint64) (text []byte) {
		for _, m := range moves {
			text = append(text, byte(m[0]))
			text = binary.LittleEndian.AppendUint64(text, m[1])
			text = binary.LittleEndian.AppendUint64(text, m[2])
		}
		return text
	}
	for i := range algo.Rates() {
		f.Add(uint8(i), int64(10), int64(1_000_000), int64(0), year2026, life([3]uint64{0, 0, 10}, [3]uint64{0, 0, 1}, [3]uint64{8, 0, 1}))
		f.Add(uint8(i), int64(999_999_937), int64(31_622_399_999_981), int64(1_000_000_000), maxInstant,
			life([3]uint64{0, 0, 1e9}, [3]uint64{3, 1e15, 7}, [3]uint64{20, 5, 3}, [3]uint64{4, 0, 0}, [3]uint64{2, 9, maxExact}))
		f.Add(uint8(i), int64(1), int64(3_155_760), int64(1_000_000_000), int64(0), life([3]uint64{3, 1e15, 1e9}, [3]uint64{24, 0, 1}))
	}
	twins := map[headgate.Algorithm]*luaStepper{}
	f.Fuzz(func(t *testing.T, which uint8, rate, period, burst, now int64, moves []byte) {
		a := algo.Rates()[int(which)%len(algo.Rates())]
		l := headgate.Limit{Rate: rate, Period: time.Duration(period%(1<<50)) * time.Microsecond, Burst: burst}
		if !accepts(a, l) || now < 0 || now > maxInstant || len(moves) > 17*64 {
			return
		}
		if twins[a.Name] == nil {
			twin, err := newLuaStepper(a, unchangedText(a))
			if err != nil {
				t.Fatal(err)
			}
			twins[a.Name] = twin
		}
		fuzzKey(t, newKey(a, l), twins[a.Name], now, moves)
	})
}

func fuzzKey(t *testing.T, k *key, twin *luaStepper, now int64, moves []byte) {
	twin.forget()
	twin.bind(k.algorithm, k.limit)
	var want, got result
	booked, taken := step{verb: cancel}, step{verb: undo}
	for ; len(moves) >= 17; moves = moves[17:] {
		s := fuzzStep(moves, canReserve(k.algorithm), booked, taken)
		now = fuzzInstant(now, moves, k, &want)
		s.t = now
		before, was := k.String(), k.state
		k.do(&s, &want)
		if err := twin.do(&s, &got); err != nil || !want.equals(&got) {
			t.Fatalf("%s: %v:\n got in Lua %v (%v)\nwant as Go %v", before, &s, &got, err, &want)
		}
		if s.verb == reserve && want.ok {
			booked.n, booked.mark = s.n, k.state
		}
		if s.verb == take && want.ok {
			taken.n, taken.was, taken.mark, taken.t0 = s.n, was, k.state, s.t
		}
		if st := k.state; st.A < 0 || st.A > maxExact || st.B < 0 || st.B >= 1<<30 || st.C < 0 || st.C >= 1<<30 {
			t.Fatalf("%s: %v: got state %+v want A below 2^53, B and C below 2^30", before, &s, st)
		}
		d, wait := want.decision, want.decision.RetryAfter.Microseconds()
		if s.verb == reserve {
			continue // what it refuses is a delay
		}
		if !d.Allowed && !d.Never && now+wait <= maxInstant && (wait < 1 || !k.allows(now+wait, s.n) || k.allows(now+wait-1, s.n)) {
			t.Fatalf("%s: %v: retry_after %d is not the first instant", before, &s, wait)
		}
	}
}

// fuzzStep reads a step from 17 bytes: the verb, a number for the instant and one for
// the cost.
func fuzzStep(move []byte, books bool, booked, taken step) step {
	amount := binary.LittleEndian.Uint64(move[9:])
	s := step{verb: verb(move[0]%8) % verbs, n: int64(amount % (1 << 31)), room: amount>>40&1 == 0}
	switch {
	case s.verb == undo:
		s = taken
	case !books && s.verb > refund:
		s.verb = take
	case s.verb == refund:
		s.n = int64(amount % (1 << 53))
	case s.verb == reserve:
		s.maxDelay = int64(amount>>8) % hundredYear
	case s.verb == cancel:
		s = booked
	}
	return s
}

func fuzzInstant(now int64, move []byte, k *key, last *result) int64 {
	far := int64(binary.LittleEndian.Uint64(move[1:]) % (1 << 53))
	switch move[0] / 8 % 5 {
	case 1:
		now += last.decision.RetryAfter.Microseconds() - far%2
	case 2:
		now += last.decision.ResetAfter.Microseconds() - far%2
	case 3:
		now = far
	case 4:
		now += far % (3 * k.limit.Period.Microseconds())
	}
	return min(maxInstant, max(0, now))
}
