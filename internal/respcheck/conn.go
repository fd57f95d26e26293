package respcheck

import (
	"net"
	"sync"
)

// Limits bound the memory that a client allocates for one reply.
type Limits struct {
	Bytes    int64 // maximum size of a reply, including the sizes that it announces
	Elements int64 // maximum number of elements of all arrays, maps and sets of a reply
}

// DefaultLimits are sufficient for the replies to all commands of the Redis store. The
// largest are the replies to CLUSTER SLOTS in a cluster of many nodes.
var DefaultLimits = Limits{Bytes: 16 << 20, Elements: 1 << 19}

const (
	maxDepth     = 8       // maximum nesting of arrays, maps and sets
	maxAggregate = 1 << 17 // maximum number of elements of one array, map or set
	maxLine      = 64 << 10
)

// Error is the error of a connection whose server sent an invalid reply. It contains
// nothing of the reply.
type Error string

func (e Error) Error() string { return "invalid reply: " + string(e) }

// The errors of a connection.
const (
	ErrNotRedis    Error = "unknown message type; the server does not use the Redis protocol"
	errType        Error = "unknown message type"
	errNumber      Error = "malformed number"
	errLine        Error = "malformed line"
	errBoolean     Error = "malformed boolean"
	errTerminator  Error = "missing line end after a string"
	errLength      Error = "invalid length"
	errTooLarge    Error = "too large"
	errTooDeep     Error = "nested too deeply"
	errNestedPush  Error = "push message inside a reply"
	errUnsolicited Error = "no request is pending"
	errMismatch    Error = "does not match the request"
	errRedirection Error = "malformed redirection"
	errEvent       Error = "malformed sentinel event"
)

// errRequest means that the client sent something that this package does not support.
const errRequest Error = "unsupported request"

// Conn is a connection whose replies are checked.
type Conn struct {
	net.Conn
	mu       sync.Mutex // not held during I/O
	requests requests
	replies  replies
	matcher  *matcher
	err      error // the first violation
}

// New returns a connection that checks the replies, and matches them with the requests
// that rueidis writes to it.
func New(conn net.Conn, limits Limits) *Conn {
	c := Bounded(conn, limits)
	c.matcher = &matcher{}
	return c
}

// Bounded returns a connection that checks only the syntax and the size of the replies,
// for a client that handles unexpected replies.
func Bounded(conn net.Conn, limits Limits) *Conn {
	return &Conn{Conn: conn, replies: replies{limits: limits}}
}

// Write sends requests.
func (c *Conn) Write(p []byte) (int, error) {
	if c.matcher != nil {
		if err := c.sent(p); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// sent registers requests before they are sent, so that no reply arrives earlier.
func (c *Conn) sent(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.requests.parse(p, c.matcher)
	}
	return c.err
}

// Read returns the bytes of valid replies. After an invalid one it closes the
// connection.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	valid, violation := c.received(p[:n])
	if violation != nil {
		_ = c.Conn.Close()
		return valid, violation
	}
	return n, err
}

// received checks the bytes that arrived. After a violation, valid is the number of
// bytes of complete, valid replies before it.
func (c *Conn) received(p []byte) (valid int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		valid, c.err = c.replies.parse(p, c.matcher)
	}
	return valid, c.err
}
