package httpapi

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// settleTime is how long a shutdown waits for requests that are already in transit.
const settleTime = 100 * time.Millisecond

// pause waits for the duration d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// backlogListener can stop listening without refusing connections that are already
// queued.
type backlogListener struct {
	net.Listener
	stopping atomic.Bool
	once     sync.Once
	closed   error // result of the first call of Close
}

// Close closes the listener. Only the first call has an effect.
func (l *backlogListener) Close() error {
	l.once.Do(func() { l.closed = l.Listener.Close() })
	return l.closed
}

// stop makes Accept return connections until the given time, and no more after that. A
// listener that does not support deadlines is closed immediately.
func (l *backlogListener) stop(until time.Time) {
	l.stopping.Store(true)
	if ln, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); !ok || ln.SetDeadline(until) != nil {
		_ = l.Close() // makes Accept return the error
	}
}

// Accept returns the next connection. After a call of stop, Accept closes the listener
// when the deadline has passed.
func (l *backlogListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil && l.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errors.Join(net.ErrClosed, l.Close())
	}
	return conn, err
}
