package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// settleTime is what requests on their way have to arrive in when a server stops.
const settleTime = 100 * time.Millisecond

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// backlogListener can stop without turning away who already waits to be accepted.
type backlogListener struct {
	net.Listener
	stopping atomic.Bool
	once     sync.Once
	closed   error // what the first Close said
}

// Close closes the listener; only the first call does anything.
func (l *backlogListener) Close() error {
	l.once.Do(func() { l.closed = l.Listener.Close() })
	return l.closed
}

// stop accepts what comes until then and no more. A listener that knows no deadlines is closed at once.
func (l *backlogListener) stop(until time.Time) {
	l.stopping.Store(true)
	if ln, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); !ok || ln.SetDeadline(until) != nil {
		_ = l.Close() // Accept tells of it
	}
}

// Accept is that of the listener; the end of the last wait is that of the listener.
func (l *backlogListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if l.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errors.Join(net.ErrClosed, l.Close())
	}
	return conn, err
}

// connStates counts the connections that are not idle.
type connStates struct {
	busy  *atomic.Int64
	conns sync.Map // net.Conn → whether it is busy
}

func (c *connStates) change(conn net.Conn, state http.ConnState) {
	busy := state == http.StateNew || state == http.StateActive
	before, known := c.conns.Swap(conn, busy)
	if state == http.StateClosed || state == http.StateHijacked {
		c.conns.Delete(conn)
	}
	switch was := known && before.(bool); {
	case busy && !was:
		c.busy.Add(1)
	case !busy && was:
		c.busy.Add(-1)
	}
}
