package bounded_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// members are the connections of a test, in the order in which they were added.
type members struct {
	t      *testing.T
	set    *bounded.Connections
	closed []int // connections that the set has closed
	added  int
}

// add adds a connection, or returns nil.
func (m *members) add() *bounded.Conn {
	n := m.added
	c := m.set.Add(1000, func() { m.closed = append(m.closed, n) })
	if c != nil {
		m.added++
	}
	time.Sleep(time.Millisecond)
	return c
}

// mustClose fails unless exactly these connections were closed since the last call.
func (m *members) mustClose(when string, want ...int) {
	m.t.Helper()
	if !slices.Equal(m.closed, want) {
		m.t.Errorf("%s: closed %v, want %v", when, m.closed, want)
	}
	m.closed = nil
}

func within(t *testing.T, limits bounded.Limits, test func(m *members)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(&members{t: t, set: bounded.New(limits)})
	})
}

// Connections without a request are closed first, then idle ones, then connections that
// wait for their client, each time the oldest. A new connection is protected for a
// second, and one whose request is processed always.
func TestRoomForConnections(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 8}, func(m *members) {
		for range 2 {
			m.add().Idle(time.Now())
		}
		for range 2 {
			m.add().Waiting(time.Now())
		}
		busy := m.add()
		busy.Busy()
		m.add()
		m.add()
		m.add()
		m.add()
		m.mustClose("all new", 0)
		time.Sleep(time.Second)
		for _, want := range []int{5, 6, 7, 8, 1, 2, 3} {
			m.add().Busy()
			m.mustClose("a second later", want)
		}
		if m.add() != nil {
			t.Error("a connection was added while all others were busy")
		}
		m.mustClose("all busy")
		busy.End()
		busy.End()
		if m.add() == nil || m.set.Open() != 8 || m.set.Busy() != 8 {
			t.Errorf("after the end of one: %d open and %d busy connections, want 8", m.set.Open(), m.set.Busy())
		}
	})
}

// A client that opens all connections without a request shuts others out for at most
// 20 ms.
func TestFloodOfConnections(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 100}, func(m *members) {
		for range 1000 { // one per millisecond
			if m.add() == nil {
				t.Fatal("a connection was refused")
			}
		}
		if m.set.Open() != 100 || len(m.closed) != 900 {
			t.Errorf("%d open, %d closed; want 100 and 900", m.set.Open(), len(m.closed))
		}
		for i, n := range m.closed {
			if age := 100 + i - n; age < 20 {
				t.Fatalf("a connection was closed after %d ms, want at least 20 ms", age)
			}
		}
	})
}

// A flood of connections without a request that uses up the memory closes its own
// connections, not those of clients between two requests, whose buffers hold a little
// memory.
func TestFloodThatUsesMemory(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 1000, Bytes: 100_000}, func(m *members) {
		for range 10 {
			client := m.add()
			client.Idle(time.Now())
			client.Grow(100)
		}
		for range 1000 { // one per millisecond
			if m.add() == nil {
				t.Fatal("a connection was refused")
			}
		}
		for _, n := range m.closed {
			if n < 10 {
				t.Errorf("client %d was closed", n)
			}
		}
	})
}

// An idle connection whose transaction holds much memory is closed like one with an
// unfinished request.
func TestIdleConnectionWithMuchMemory(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 100, Bytes: 50_000}, func(m *members) {
		light, heavy, other := m.add(), m.add(), m.add()
		light.Idle(time.Now())
		light.Grow(100)
		heavy.Idle(time.Now())
		heavy.Grow(40_000)
		time.Sleep(time.Second)
		other.Busy()
		if !other.Grow(10_000) {
			t.Error("there is no room")
		}
		m.mustClose("above the limit", 1)
	})
}

// If the memory is used up, the connection is closed that has held the most bytes for
// the longest time while the server waited for its client, then an idle one.
func TestRoomForMemory(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 100, Bytes: 100_000}, func(m *members) {
		idle, old, heavy, busy := m.add(), m.add(), m.add(), m.add()
		idle.Idle(time.Now())
		old.Waiting(time.Now())
		old.Grow(20_000)
		busy.Busy()
		busy.Grow(40_000)
		time.Sleep(time.Second)
		heavy.Waiting(time.Now())
		heavy.Grow(30_000)
		if !busy.Grow(10_000) {
			t.Error("a busy connection was closed")
		}
		m.mustClose("above the limit", 1)
		if !busy.Grow(30_000) {
			t.Error("a busy connection was closed")
		}
		m.mustClose("above the limit again", 2)
		if !busy.Grow(18_500) {
			t.Error("a busy connection was closed")
		}
		m.mustClose("above the limit without incomplete requests", 0)
		if busy.Grow(10_000) {
			t.Error("the limit was exceeded")
		}
		busy.End()
		if n := m.set.Bytes(); n != 0 || m.set.Open() != 0 {
			t.Errorf("%d bytes in %d connections after the end of all", n, m.set.Open())
		}
	})
}

// A burst of unfinished requests does not close idle connections: it waits until its
// clients are slow, and the heaviest of these is closed.
func TestBurstDoesNotCloseIdleConnections(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 100, Bytes: 100_000}, func(m *members) {
		m.add().Idle(time.Now())
		heavy, last := m.add(), m.add()
		heavy.Waiting(time.Now())
		last.Waiting(time.Now())
		if !heavy.Hold(60_000) || last.Hold(50_000) {
			t.Error("the limit was not applied")
		}
		m.mustClose("requests hold most of the memory")
		if !last.AwaitRoom(func() bool { return false }) {
			t.Error("the lighter connection was closed")
		}
		m.mustClose("a slow client", 1)
	})
}

// A connection waits for memory for as long as its own requests are processed, and for a
// second longer.
func TestAwaitRoom(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 10, Bytes: 10_000}, func(m *members) {
		c := m.add()
		c.Busy()
		begin := time.Now()
		processing := func() bool { return time.Since(begin) < 10*time.Second }
		if c.Hold(20_000) || c.AwaitRoom(processing) {
			t.Error("there is room")
		}
		if got := time.Since(begin).Round(100 * time.Millisecond); got != 11*time.Second {
			t.Errorf("waited for %v, want 11s", got)
		}
		time.AfterFunc(time.Minute, func() { c.Hold(-15_000) })
		if !c.AwaitRoom(func() bool { return true }) {
			t.Error("there is no room after a request has completed")
		}
	})
}

// Long requests have a quarter of the memory, and no connection is closed for them that
// has waited for its client for less than a second.
func TestReserve(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 10, Bytes: 103_000}, func(m *members) {
		one, two, slow := m.add(), m.add(), m.add()
		slow.Waiting(time.Now())
		slow.Hold(10_000)
		one.Busy()
		two.Busy()
		if !one.Reserve(15_000) || two.Reserve(1) || one.Reserve(1) {
			t.Error("long requests do not have exactly a quarter of the memory")
		}
		if !two.Hold(40_000) {
			t.Error("a short request has no memory")
		}
		two.Hold(-40_000)
		m.mustClose("no connection is slow")
		time.Sleep(time.Second)
		if !two.Reserve(10_000) || two.Reserve(251) {
			t.Error("the memory of the slow connection is not used")
		}
		m.mustClose("one is slow", 2)
		if got := m.set.Bytes(); got != 27_000 {
			t.Errorf("the connections hold %d bytes, want 27000", got)
		}
		two.End()
		if two.Reserve(1) || m.set.Bytes() != 16_000 {
			t.Errorf("after the end of the connection: %d bytes, want 16000", m.set.Bytes())
		}
	})
}

// Connections that are idle make room for a request while they hold most of the memory.
func TestIdleConnectionsMakeRoomForRequests(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 100, Bytes: 50_000}, func(m *members) {
		for range 49 {
			m.add().Idle(time.Now())
		}
		busy := m.add()
		busy.Waiting(time.Now())
		if !busy.Hold(2000) {
			t.Error("a request has no memory")
		}
		m.mustClose("idle connections hold most of the memory", 0, 1)
	})
}

// A client that fills the memory is closed itself.
func TestHeaviestConnectionIsItself(t *testing.T) {
	t.Parallel()
	within(t, bounded.Limits{Connections: 100, Bytes: 100_000}, func(m *members) {
		for range 50 {
			m.add().Idle(time.Now())
		}
		greedy := m.add()
		greedy.Waiting(time.Now())
		grown := 0
		for greedy.Grow(1000) {
			grown++
		}
		m.mustClose("one connection holds all")
		if grown != 49 {
			t.Errorf("grown %d times, want 49", grown)
		}
	})
}

// The counters are exact after any sequence of calls in several goroutines.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	set := bounded.New(bounded.Limits{Connections: 20, Bytes: 200_000})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				c := set.Add(1000, func() {})
				if c == nil {
					continue
				}
				for range rand.IntN(5) {
					switch rand.IntN(4) {
					case 0:
						c.Idle(time.Now())
					case 1:
						c.Waiting(time.Now())
					case 2:
						c.Busy()
					}
					c.Grow(rand.Int64N(30_000))
				}
				c.End()
				c.Grow(-10)
			}
		})
	}
	all.Wait()
	if set.Open() != 0 || set.Busy() != 0 || set.Bytes() != 0 {
		t.Errorf("%d open, %d busy, %d bytes after the end of all; want 0", set.Open(), set.Busy(), set.Bytes())
	}
}
