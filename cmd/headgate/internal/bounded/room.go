package bounded

import "time"

// Settings for choosing the connection that is closed in favor of another.
const (
	// protection is the time for which a connection is not closed in favor of a new one:
	// within this time, a client sends its first request, or the rest of a request.
	protection = time.Second
	// floodProtection replaces protection for the first request while most of the open
	// connections are unused. Otherwise, a client that opens as many connections as there
	// is room for would shut out other clients for a second.
	floodProtection = 20 * time.Millisecond
	maxCompared     = 64 // maximum number of suitable connections that are compared

	slowTime     = 500 * time.Millisecond // time after which a client with an incomplete request is slow
	maxRoomTime  = time.Second            // maximum time for which a connection waits for memory
	roomInterval = 2 * time.Millisecond   // time between two attempts to find memory
)

// closable returns the connection to close in favor of a new one, and its state, or nil
// if there is none. It prefers connections that have never sent a request to idle ones,
// and idle ones to those whose request is incomplete or whose response is not read.
// Among these it chooses the one that has been in its state for the longest time. It
// never returns a connection whose request is being processed.
func (s *Connections) closable() (found *Conn, state int64) {
	if s.open.Load() == 0 {
		return nil, 0
	}
	now := time.Since(s.start)
	oldest := [...]int64{unused: (now - s.firstRequestTime()).Microseconds(), idle: now.Microseconds(), waiting: (now - protection).Microseconds()}
	s.search(func(c *Conn, at int64) bool {
		kind := kindOf(at)
		if kind > waiting || sinceOf(at) > oldest[kind] {
			return false
		}
		if found == nil || closesBefore(at, state) {
			found, state = c, at
		}
		return true
	})
	return found, state
}

// firstRequestTime returns the time that a new connection has for its first request.
func (s *Connections) firstRequestTime() time.Duration {
	if 2*s.unused.Load() > s.open.Load() {
		return floodProtection
	}
	return protection
}

// closesBefore reports whether a connection in the first state is to be closed rather
// than a connection in the other state.
func closesBefore(state, other int64) bool {
	if kindOf(state) != kindOf(other) {
		return kindOf(state) < kindOf(other)
	}
	return sinceOf(state) < sinceOf(other)
}

// heaviest returns the connection that has held the most bytes for the longest time,
// while the server waited for its client for at least minAge, or nil if there is none.
// The product of bytes and time is small for a client that sends a long request, and
// large for one that leaves requests unfinished. An idle connection counts only if it
// holds more than its base: the rest of a buffer must not make it the heaviest.
func (s *Connections) heaviest(minAge time.Duration) (found *Conn, state int64) {
	now, most := time.Since(s.start).Microseconds(), int64(0)
	s.search(func(c *Conn, at int64) bool {
		held, least := c.bytes.Load()-c.base, int64(0)
		if kindOf(at) == idle {
			least = c.base
		}
		if kindOf(at) > waiting || held <= least || now-sinceOf(at) < minAge.Microseconds() {
			return false
		}
		if weight := held * (1 + max(0, now-sinceOf(at))/1000); weight > most {
			found, state, most = c, at, weight
		}
		return true
	})
	return found, state
}

// search calls suits for connections and their states, until it has returned true
// maxCompared times or all connections have been visited. Each search begins where the
// previous one ended.
func (s *Connections) search(suits func(c *Conn, state int64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for compared, visited := 0, 0; visited < len(s.conns) && compared < maxCompared; visited++ {
		if s.cursor++; s.cursor >= len(s.conns) {
			s.cursor = 0
		}
		if c := s.conns[s.cursor]; suits(c, c.state.Load()) {
			compared++
		}
	}
}
