package bounded

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultBytes is the default of the maximum memory of a listener's connections, in
// bytes. The process needs about twice as much, because of the garbage collector: less
// than 512 MB with everything else.
const DefaultBytes = 192 << 20

// Limits are the limits of a [Connections].
type Limits struct {
	Connections int   // maximum number of open connections; below 1 counts as 1
	Bytes       int64 // maximum memory of all connections together, in bytes; 0 means no limit
}

// Connections is a set of open connections with a limit on their number and on their
// memory. If a limit is reached, it closes a connection in favor of another. It prefers
// connections whose clients are the least likely to need them, so that idle and
// unfinished connections cannot block the listener. It may be used concurrently.
type Connections struct {
	maxOpen, maxBytes int64
	start             time.Time // the zero of the times in states

	open   atomic.Int64 // number of open connections
	unused atomic.Int64 // number of connections that have not sent a request yet
	active atomic.Int64 // number of connections in another state than unused and idle
	bytes  atomic.Int64 // memory of all connections
	base   atomic.Int64 // the part of bytes that the connections hold without any request
	closed atomic.Int64 // number of connections that were closed to make room

	mu     sync.Mutex
	conns  []*Conn
	cursor int // index in conns at which the next search begins
}

// New returns an empty set.
func New(limits Limits) *Connections {
	return &Connections{maxOpen: int64(max(1, limits.Connections)), maxBytes: cmp.Or(limits.Bytes, 1<<62), start: time.Now()}
}

// Open returns the number of open connections.
func (s *Connections) Open() int64 { return s.open.Load() }

// MaxOpen returns the maximum number of open connections.
func (s *Connections) MaxOpen() int64 { return s.maxOpen }

// Bytes returns the memory that the connections hold, in bytes.
func (s *Connections) Bytes() int64 { return s.bytes.Load() }

// Closed returns the number of connections that were closed to make room for others.
func (s *Connections) Closed() int64 { return s.closed.Load() }

// Busy returns the number of connections that have sent no request yet or have a
// request in flight.
func (s *Connections) Busy() int64 { return s.unused.Load() + s.active.Load() }

// Add adds an open connection that has not sent a request yet. base is the memory that
// it holds without any request, in bytes. If the set closes the connection to make
// room, it calls the function end once, in any goroutine; end must not block, and must
// not call methods of the set. Add returns nil if there is no room.
func (s *Connections) Add(base int64, end func()) *Conn {
	for s.open.Add(1) > s.maxOpen {
		s.open.Add(-1)
		if !s.closeOne(s.closable()) {
			return nil
		}
	}
	c := &Conn{set: s, end: end, base: base}
	c.state.Store(s.state(unused, time.Now()))
	s.unused.Add(1)
	s.base.Add(base)
	s.mu.Lock()
	c.index = len(s.conns)
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	if !c.Grow(base) {
		c.End()
		return nil
	}
	return c
}

// remove removes a connection from the list.
func (s *Connections) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.conns) - 1
	moved := s.conns[last]
	s.conns[c.index], moved.index = moved, c.index
	s.conns[last] = nil
	s.conns = s.conns[:last]
}

// Conn is an open connection in a [Connections]. Its owner reports each change of its
// state. Its methods may be called concurrently.
type Conn struct {
	set   *Connections
	end   func()
	base  int64
	index int // in set.conns; guarded by set.mu
	state atomic.Int64
	bytes atomic.Int64 // memory that is included in set.bytes
}

// The kinds of states. The order of the first three is the order in which connections
// are closed to make room for new ones.
const (
	unused  = iota + 1 // no request was sent yet
	idle               // between two requests
	waiting            // the client has sent only a part of a request, or does not read a response
	busy               // the server processes a request
	ended              // the connection is closed; this state is final
)

const kindBits = 3

// state returns a state of a kind that began at the given time.
func (s *Connections) state(kind int64, since time.Time) int64 {
	return max(0, since.Sub(s.start).Microseconds())<<kindBits | kind
}

func kindOf(state int64) int64  { return state & (1<<kindBits - 1) }
func sinceOf(state int64) int64 { return state >> kindBits }

// Idle reports that the connection waits for its next request since the given time.
func (c *Conn) Idle(since time.Time) { c.change(c.set.state(idle, since)) }

// Waiting reports that the connection waits, since the given time, for the rest of a
// request, or for the client to read a response.
func (c *Conn) Waiting(since time.Time) { c.change(c.set.state(waiting, since)) }

// Busy reports that the server processes a request.
func (c *Conn) Busy() { c.change(busy) }

// End removes the connection from the set. Further calls have no effect.
func (c *Conn) End() { c.change(ended) }

// Ended reports whether the connection was removed from the set.
func (c *Conn) Ended() bool { return kindOf(c.state.Load()) == ended }

// precision is the time by which the start of a state may be too early, so that a
// frequent call has no cost.
const precision = 20_000 << kindBits

// change changes the state, unless the connection has ended.
func (c *Conn) change(to int64) {
	for {
		from := c.state.Load()
		if kindOf(from) == ended || kindOf(from) == kindOf(to) && to-from < precision && to >= from {
			return
		}
		if c.state.CompareAndSwap(from, to) {
			c.changed(from, to)
			return
		}
	}
}

// changed updates the counters of the set after a change of the state.
func (c *Conn) changed(from, to int64) {
	s := c.set
	if kindOf(from) == unused {
		s.unused.Add(-1)
	}
	if n := isActive(to) - isActive(from); n != 0 {
		s.active.Add(n)
	}
	if kindOf(to) == ended {
		s.open.Add(-1)
		s.base.Add(-c.base)
		s.bytes.Add(-c.bytes.Swap(0))
		s.remove(c)
	}
}

// isActive returns 1 for the states waiting and busy, and 0 for others.
func isActive(state int64) int64 {
	if kind := kindOf(state); kind == waiting || kind == busy {
		return 1
	}
	return 0
}

// Grow reports that the connection holds n bytes more, or fewer if n is negative. If the
// limit of the set is exceeded, Grow closes connections until it is not: first those
// that have held the most bytes for the longest time while the server waited for the
// client, then idle ones. It returns false if the connection has ended or if the caller
// must close it.
func (c *Conn) Grow(n int64) bool { return c.add(n, 0) }

// Hold reports n more bytes like [Conn.Grow], but closes only connections that have
// waited for their client for some time, and, unless requests hold most of the memory,
// idle ones. If it returns false, the caller must call [Conn.AwaitRoom].
func (c *Conn) Hold(n int64) bool { return c.add(n, slowTime) }

// add adds n to the bytes of the connection and of the set. If the limit is exceeded, it
// calls makeRoom with minAge. It returns false if the connection has ended or if there is
// no room.
func (c *Conn) add(n int64, minAge time.Duration) bool {
	c.bytes.Add(n)
	all := c.set.bytes.Add(n)
	if c.Ended() { // the connection may have ended before the previous lines
		c.set.bytes.Add(-c.bytes.Swap(0))
		return false
	}
	return n <= 0 || all <= c.set.maxBytes || c.set.makeRoom(c, minAge)
}

// Reserve reports n more bytes for a request that is long, if there is enough room for
// it: requests then hold at most a quarter of the memory that connections need not have
// for themselves. The rest remains for short requests and for messages that arrive.
// Reserve closes connections that have waited for their client for longer than
// protection. If it returns false, it has reported nothing, and the caller denies the
// request.
func (c *Conn) Reserve(n int64) bool {
	s := c.set
	c.bytes.Add(n)
	s.bytes.Add(n)
	for !c.Ended() {
		base := s.base.Load()
		if 4*(s.bytes.Load()-base) <= s.maxBytes-base {
			return true
		}
		found, state := s.heaviest(protection)
		if found == nil || found == c {
			break
		}
		s.closeOne(found, state)
	}
	c.Grow(-n)
	return false
}

// AwaitRoom waits until the memory is within the limit, because the requests of other
// connections, or of this one, complete. While isProcessing returns true, it waits,
// because requests of this connection will complete. After maxRoomTime without these, it
// makes room like [Conn.Grow]. It returns false if the connection has ended or if the
// caller must close it.
func (c *Conn) AwaitRoom(isProcessing func() bool) bool {
	for end := time.Now().Add(maxRoomTime); time.Now().Before(end) && !c.Ended(); time.Sleep(roomInterval) {
		if c.set.makeRoom(c, slowTime) {
			return true
		}
		if isProcessing() {
			end = time.Now().Add(maxRoomTime)
		}
	}
	return !c.Ended() && c.set.makeRoom(c, 0)
}

// makeRoom closes connections until the memory is within the limit. It closes only
// connections that have waited for their client for at least minAge, and idle ones. It
// returns false if there are not enough of these, or if one of them is c.
//
// With a positive minAge, it closes no idle connections while requests hold most of the
// memory. Otherwise, clients that send many unfinished requests in less than minAge
// would make the connections of other clients end.
func (s *Connections) makeRoom(c *Conn, minAge time.Duration) bool {
	for s.bytes.Load() > s.maxBytes {
		found, state := s.heaviest(minAge)
		if found == nil && (minAge == 0 || 2*(s.bytes.Load()-s.base.Load()) <= s.maxBytes) {
			found, state = s.closable()
		}
		if found == nil || found == c {
			return false
		}
		s.closeOne(found, state)
	}
	return !c.Ended()
}

// closeOne closes a connection if its state has not changed. It returns false if there
// is no connection.
func (s *Connections) closeOne(c *Conn, state int64) bool {
	if c == nil {
		return false
	}
	if c.state.CompareAndSwap(state, ended) {
		c.changed(state, ended)
		s.closed.Add(1)
		c.end()
	}
	return true
}
