package memcachedstore

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
)

func logOf(entries ...algo.LogEntry) *algo.Log {
	log := &algo.Log{}
	for _, e := range entries {
		log.Append(e.At, e.Total)
	}
	return log
}

// entriesOf returns the entries of a log: instants with their units.
func entriesOf(log *algo.Log) []algo.LogEntry {
	var all []algo.LogEntry
	log.Units(func(at, units int64) bool {
		all = append(all, algo.LogEntry{At: at, Total: units})
		return true
	})
	return all
}

func TestValueRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []cell{
		{},
		{state: algo.State{A: 1, B: 2, C: 3}, unusedAt: 4},
		{state: algo.State{A: maxA, B: maxBC, C: maxBC}, unusedAt: maxUnusedAt},
		{log: &algo.Log{}},
		{log: logOf(algo.LogEntry{At: 0, Total: 1}), unusedAt: 7},
		{log: logOf(algo.LogEntry{At: 5, Total: 1_000_000}, algo.LogEntry{At: 6, Total: 1}, algo.LogEntry{At: maxA, Total: 998_999_999}), unusedAt: maxUnusedAt},
	} {
		value := c.value()
		got := cell{raw: value}
		if err := got.decode(c.log != nil); err != nil {
			t.Errorf("%+v: got error %v", c, err)
			continue
		}
		if got.state != c.state || got.unusedAt != c.unusedAt || c.log != nil && !slices.Equal(entriesOf(got.log), entriesOf(c.log)) {
			t.Errorf("got %+v want %+v", got, c)
		}
		if got.decode(c.log == nil) == nil {
			t.Errorf("%+v: read as a value of the other kind: got no error want one", c)
		}
		for n := range value {
			if cut := (&cell{raw: value[:n]}); c.log == nil && cut.decode(false) == nil {
				t.Errorf("%+v: the first %d bytes of it: got no error want one", c, n)
			}
		}
		if c.log == nil && (&cell{raw: append(value, 0)}).decode(false) == nil {
			t.Errorf("%+v: one byte more: got no error want one", c)
		}
	}
}

// Any value is refused, or is a valid state that is encoded as it was read.
func FuzzDecode(f *testing.F) {
	f.Add((&cell{state: algo.State{A: 1, B: 2, C: 3}, unusedAt: 4}).value(), false)
	f.Add((&cell{log: logOf(algo.LogEntry{At: 1, Total: 2}, algo.LogEntry{At: 3, Total: 4}), unusedAt: 4}).value(), true)
	held := algo.Hold{Deadline: 2, Least: algo.Debt{Whole: 3}}
	held.Set(1, algo.PlainHold)
	f.Add((&cell{ledger: algo.Ledger{Holds: []algo.Hold{held}}}).value(), false)
	f.Add([]byte("\xb2\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00\x01"), true)
	f.Fuzz(func(t *testing.T, value []byte, isLog bool) {
		c := cell{raw: value}
		if c.decode(isLog) != nil || value == nil {
			return
		}
		if s := c.state; s.A < 0 || s.A > maxA || s.B < 0 || s.B > maxBC || s.C < 0 || s.C > maxBC || c.unusedAt < 0 {
			t.Errorf("%x: got %+v", value, c)
		}
		again := cell{raw: c.value()}
		if err := again.decode(isLog); err != nil || !bytes.Equal(again.value(), c.value()) {
			t.Errorf("%x: written again it is not the same", value)
		}
		if isLog {
			last := int64(-1)
			for _, e := range entriesOf(c.log) {
				if e.At <= last || e.Total < 1 {
					t.Errorf("%x: got entries %v", value, entriesOf(c.log))
				}
				last = e.At
			}
		}
	})
}

// The longest logs fit into an item of memcached, given the bound on entries, which are
// within 366 days and have at maxBytes 1e9 units.
func TestMaxLogSize(t *testing.T) {
	t.Parallel()
	const maxBytes = 1<<20 - 1024 // leaves room for memcached's header and the key
	random := rand.New(rand.NewPCG(1, 2))
	period := headgate.MaxPeriod.Microseconds()
	for name, units := range map[string]func(i int) int64{
		"even":              func(int) int64 { return headgate.MaxUnits / maxEntries },
		"most 2-byte units": func(i int) int64 { return 128 },
		"most 3-byte units": func(i int) int64 {
			if i < 60_000 {
				return 16_384
			}
			return 128
		},
		"random": func(int) int64 { return 1 + random.Int64N(2*headgate.MaxUnits/maxEntries-2) },
	} {
		c := cell{log: &algo.Log{}, unusedAt: maxUnusedAt}
		at, sum := int64(maxA)-period, int64(0)
		for i := range maxEntries {
			at += min(period/maxEntries, maxA-at)
			n := max(1, min(units(i), headgate.MaxUnits-sum-int64(maxEntries-i-1)))
			c.log.Append(at, n)
			sum += n
		}
		if got := len(c.value()); got > maxBytes {
			t.Errorf("%s: %d entries with %d units take %d bytes want at maxBytes %d", name, c.log.Len(), sum, got, maxBytes)
		} else {
			t.Logf("%s: %d entries with %d units take %d bytes", name, c.log.Len(), sum, got)
		}
	}
}

func TestTrimMergesNewest(t *testing.T) {
	t.Parallel()
	c := cell{log: logOf(algo.LogEntry{At: 1, Total: 1}, algo.LogEntry{At: 2, Total: 2}, algo.LogEntry{At: 3, Total: 3}, algo.LogEntry{At: 4, Total: 4})}
	c.trim(4)
	if c.log.Len() != 4 {
		t.Errorf("trimmed to 4 of 4: got %v", entriesOf(c.log))
	}
	c.trim(2)
	if want := []algo.LogEntry{{At: 1, Total: 1}, {At: 4, Total: 9}}; !slices.Equal(entriesOf(c.log), want) {
		t.Errorf("trimmed to 2: got %v want %v", entriesOf(c.log), want)
	}
}

// A log with the maximum number of entries counts new units with the newest: they
// expire later than they should, never earlier. The server accepts a log of maximum
// length.
func TestLogAtMaxEntries(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	s := mustNew(t, &Options{Timeout: longTimeout}, server.Addr())
	s.maxLogEntries = 3
	b := mustBind(t, s, "rule", headgate.SlidingLog, "10/1s")
	for i := range headgate.Instant(6) {
		mustTake(t, b, testInstant+i, "one", 1)
		ops := []headgate.Op{{Bound: b, Key: "several", Cost: 1}}
		if err := s.ApplyAll(t.Context(), testInstant+i, ops, false, make([]headgate.Decision, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"one", "several"} {
		for after, want := range map[headgate.Instant]int64{999_999: 4, 1_000_000: 5, 1_000_001: 6, 1_000_004: 6, 1_000_005: 10} {
			if got := remaining(t, b, testInstant+after, key); got != want {
				t.Errorf("%s: 6 units at 6 instants in 3 entries, %d µs after the first: got %d remaining want %d", key, after, got, want)
			}
		}
	}
	s.maxLogEntries = maxEntries
	long := mustBind(t, s, "long", headgate.SlidingLog, "1000000000/366d")
	c := cell{log: &algo.Log{}, unusedAt: int64(testInstant) + headgate.MaxPeriod.Microseconds()}
	for i := range int64(maxEntries) {
		c.log.Append(int64(testInstant)+i*200_000_000, 7_000)
	}
	d := long.scope.digest("key")
	r := &round{store: s, earliest: int64(testInstant), callerInstant: true}
	if err := r.put(&cell{key: d, name: d.name()}, c.value()); err != nil {
		t.Fatal(err)
	}
	at := testInstant + maxEntries*200_000_000
	if d := mustTake(t, long, at, "key", 1); !d.Allowed || d.Remaining != 1_000_000_000-7_000*maxEntries-1 {
		t.Errorf("one unit more in a log of %d entries: got %+v", maxEntries, d)
	}
}
