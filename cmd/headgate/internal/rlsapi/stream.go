package rlsapi

import "time"

// stream is one request. Its times begin when the server has to wait for the client.
type stream struct {
	memory     int64
	header     int64 // part of memory that is held for the header
	data       int64 // part of memory since the last complete message
	earlier    int64 // part of memory of the last complete message
	received   messages
	sent       messages
	ended      bool      // whether the client has sent its last frame
	responding bool      // whether the response has begun
	readSince  time.Time // start of the incomplete message
	writeSince time.Time // start of the incomplete response
	state      streamState
}

type streamState uint8

const (
	processing streamState = iota // the server processes the request
	waiting                       // the server waits for the client
	quiet                         // a message was sent; the stream stays open for others
)

func (c *connection) newStream(now time.Time) *stream {
	var s *stream
	if n := len(c.free); n > 0 {
		s, c.free = c.free[n-1], c.free[:n-1]
	} else {
		s = new(stream)
	}
	*s = stream{readSince: now}
	return s
}

// maxFree is the maximum number of streams that are kept for reuse.
const maxFree = 64

// remove removes a stream that has ended.
func (c *connection) remove(id uint32, s *stream) {
	c.count(s.state, -1)
	c.memory -= s.memory
	delete(c.streams, id)
	if s == c.current {
		c.current = nil
	}
	if s == c.sending {
		c.sending = nil
	}
	if len(c.free) < maxFree {
		c.free = append(c.free, s)
	}
}

// hold adds n bytes to the memory of a stream.
func (c *connection) hold(s *stream, n int64) {
	s.memory += n
	c.memory += n
}

// holdData adds n bytes for the current message of a stream.
func (c *connection) holdData(s *stream, n int64) {
	s.data += n
	c.hold(s, n)
}

// endMessage notes that a message is complete. The memory of the message before it is
// free again, because the server reads one message at a time.
func (c *connection) endMessage(s *stream) {
	c.hold(s, -s.earlier)
	s.earlier, s.data = s.data, 0
}

// holdHeader adds the memory for the current frame, which is a part of the header of s.
func (c *connection) holdHeader(s *stream) {
	n := min(headerFactor*int64(c.in.left), c.limits.header-s.header)
	s.header += n
	c.hold(s, n)
}

// reading reports whether the server waits for the client to complete its message.
func (s *stream) reading() bool {
	return !s.ended && (s.received.complete == 0 || s.received.partial())
}

// writing reports whether the server waits for the client to read a message.
func (s *stream) writing() bool {
	return s.responding && (s.sent.complete == 0 || s.sent.partial())
}

// update updates the state of a stream.
func (c *connection) update(s *stream) {
	state := processing
	switch {
	case s.reading() || s.writing():
		state = waiting
	case s.sent.complete > 0:
		state = quiet
	}
	if state != s.state {
		c.count(s.state, -1)
		c.count(state, 1)
		s.state = state
	}
}

func (c *connection) count(state streamState, n int) {
	switch state {
	case waiting:
		c.waiting += n
	case quiet:
		c.quiet += n
	}
}
