package memcachedstore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
)

const (
	// maxItemBytes is the maximum size of an item that is read. It is larger than any
	// item that this package writes.
	maxItemBytes = 32 << 20
	// maxReplyBytes is the maximum size of all replies to one write of requests.
	maxReplyBytes = 256 << 20
	// maxItemLine is the maximum length of the line before an item: a key of 250 bytes
	// and three numbers.
	maxItemLine = 320
)

// errReplyTooLarge is the error for a reply that is larger than any correct one. Its
// prefix marks an unexpected reply, as in the errors of gomemcache.
var errReplyTooLarge = errors.New("memcache: the server announced or sent more than any item needs")

// dialLimited opens a connection whose replies are limited: gomemcache allocates any
// size that the server announces, and reads items without end.
func dialLimited(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &limitedConn{Conn: conn}, nil
}

// limitedConn is a connection that fails when a reply is too large. Like the
// connections of gomemcache, it is used by one goroutine at a time.
type limitedConn struct {
	net.Conn
	replied int64  // bytes since the last write
	line    []byte // the line that is being read
	skip    int64  // bytes of an item that were not read yet
}

// Write sends requests.
func (c *limitedConn) Write(p []byte) (int, error) {
	c.replied = 0
	return c.Conn.Write(p)
}

// Read reads replies. A line that announces a large item is not returned completely.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.replied += int64(n); c.replied > maxReplyBytes || !c.check(p[:n]) {
		_ = c.Close()
		return 0, errReplyTooLarge
	}
	return n, err
}

// check reports whether all items in the next bytes are small enough.
func (c *limitedConn) check(p []byte) bool {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, int64(len(p)))
			c.skip -= n
			p = p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n') + 1
		part := p[:end]
		if end == 0 {
			part = p
		}
		c.line = append(c.line, part[:min(len(part), maxItemLine-len(c.line))]...)
		if p = p[len(part):]; end == 0 {
			return true
		}
		if !c.beginItem() {
			return false
		}
	}
	return true
}

// beginItem uses a complete line. It reports whether the item that the line announces,
// if any, is small enough.
func (c *limitedConn) beginItem() bool {
	fields := bytes.Fields(c.line)
	c.line = c.line[:0]
	if len(fields) < 4 || string(fields[0]) != "VALUE" {
		return true
	}
	size, err := strconv.ParseUint(string(fields[3]), 10, 32)
	c.skip = int64(size) + int64(len("\r\n"))
	return err == nil && size <= maxItemBytes
}
