package memcachedstore

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// idleWire is how long a wire may have been idle to be used again: servers that close idle connections wait longer.
const idleWire = 10 * time.Second

// wires are the connections to one server on which writes go together: gomemcache has a connection for each request, so it is given
// ones that are none, see [strand].
type wires struct {
	gathering[write]
	dial    func(context.Context) (net.Conn, error)
	timeout time.Duration

	idleMu sync.Mutex
	idle   []*wire
	epoch  int // of connections: those of an earlier one are not used again
}

type wire struct {
	net.Conn
	replies *bufio.Reader
	used    time.Time
	epoch   int
}

// write is a cas or an add, as text, and the line that answers it.
type write struct {
	text  []byte
	reply []byte
	err   error
}

// do sends a write together with others.
func (w *wires) do(text []byte) (reply []byte, err error) {
	own := &member[write]{asked: write{text: text}}
	batch := w.lead(own)
	if batch != nil {
		w.send(batch)
		w.end(batch)
	}
	return own.asked.reply, own.asked.err
}

// send sends a batch, once. What goes wrong is the error of all that have no reply by then.
func (w *wires) send(batch []*member[write]) {
	wire, err := w.take()
	answered := 0
	if err == nil {
		answered, err = wire.exchange(batch, w.timeout)
		w.put(wire, err)
	}
	for _, m := range batch[answered:] {
		m.asked.err = err
	}
}

// exchange reports how many of a batch were answered, and why the others were not.
func (c *wire) exchange(batch []*member[write], timeout time.Duration) (answered int, err error) {
	texts := batch[0].asked.text
	if len(batch) > 1 {
		texts = nil
		for _, m := range batch {
			texts = append(texts, m.asked.text...)
		}
	}
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	if n, err := c.Write(texts); n > 0 && err != nil { // some of it may have been executed, so it must not look like a write that was not sent
		return 0, fmt.Errorf("%w: %v", io.ErrUnexpectedEOF, err)
	} else if err != nil {
		return 0, err
	}
	for i, m := range batch {
		line, err := c.replies.ReadSlice('\n')
		if err != nil {
			return i, err
		}
		m.asked.reply = bytes.Clone(line)
		if !orderly(line) && i+1 < len(batch) {
			return i + 1, io.ErrUnexpectedEOF
		}
	}
	return len(batch), nil
}

// orderly reports a reply after which the next line is the next reply: the server has understood what was written, or has skipped
// the value that it did not take.
func orderly(line []byte) bool {
	for _, known := range []string{"STORED\r\n", "EXISTS\r\n", "NOT_FOUND\r\n", "NOT_STORED\r\n", "SERVER_ERROR "} {
		if bytes.HasPrefix(line, []byte(known)) {
			return true
		}
	}
	return false
}

// take is an idle wire, or a new one.
func (w *wires) take() (*wire, error) {
	w.idleMu.Lock()
	epoch := w.epoch
	for n := len(w.idle); n > 0; n = len(w.idle) {
		last := w.idle[n-1]
		w.idle = w.idle[:n-1]
		if time.Since(last.used) < idleWire {
			w.idleMu.Unlock()
			return last, nil
		}
		_ = last.Close()
	}
	w.idleMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
	defer cancel()
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, replies: bufio.NewReader(conn), epoch: epoch}, nil
}

// put keeps a wire that is in order: nothing is awaited on it, and none was found broken since it was dialed.
func (w *wires) put(c *wire, err error) {
	w.idleMu.Lock()
	defer w.idleMu.Unlock()
	if err != nil || c.epoch != w.epoch || c.replies.Buffered() > 0 {
		_ = c.Close()
		return
	}
	c.used = time.Now()
	w.idle = append(w.idle, c)
}

// closeIdle closes the wires that are idle, and those that are not once they are.
func (w *wires) closeIdle() {
	w.idleMu.Lock()
	defer w.idleMu.Unlock()
	for _, c := range w.idle {
		_ = c.Close()
	}
	w.idle = nil
	w.epoch++
}

// strand is what gomemcache takes for a connection. Each of its requests is one Write, which returns when the reply is there.
type strand struct {
	wires *wires
	reply []byte
}

func (s *strand) Write(b []byte) (int, error) {
	var err error
	if s.reply, err = s.wires.do(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s *strand) Read(b []byte) (int, error) {
	if len(s.reply) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.reply)
	s.reply = s.reply[n:]
	return n, nil
}

func (s *strand) Close() error                     { return nil }
func (s *strand) LocalAddr() net.Addr              { return nil }
func (s *strand) RemoteAddr() net.Addr             { return nil }
func (s *strand) SetDeadline(time.Time) error      { return nil }
func (s *strand) SetReadDeadline(time.Time) error  { return nil }
func (s *strand) SetWriteDeadline(time.Time) error { return nil }

// newWriter makes the client of wires, as many as servers. They dial as client does.
func newWriter(client *memcache.Client, list servers) (*memcache.Client, []*wires) {
	all := make([]*wires, len(list))
	of := make(map[string]*wires, len(list))
	for i, server := range list {
		all[i] = &wires{timeout: client.Timeout, dial: func(ctx context.Context) (net.Conn, error) {
			if client.DialContext != nil {
				return client.DialContext(ctx, server.Network(), server.String())
			}
			return new(net.Dialer).DialContext(ctx, server.Network(), server.String())
		}}
		of[server.String()] = all[i]
	}
	writer := memcache.NewFromSelector(list)
	writer.MaxIdleConns, writer.Timeout = client.MaxIdleConns, client.Timeout
	writer.DialContext = func(_ context.Context, _, address string) (net.Conn, error) { return &strand{wires: of[address]}, nil }
	return writer, all
}
