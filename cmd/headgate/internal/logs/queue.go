// Package logs keeps logging from harming the service: requests are not delayed while
// the reader of the log blocks, repeated lines are sampled, and client addresses are
// removed from the lines that net/http logs.
package logs

import (
	"context"
	"io"
	"sync"
)

// Queue writes log lines in the background, so that callers do not wait while the
// writer blocks, for example on a full pipe. Create it with [NewQueue] and close it
// after use. Its methods may be called concurrently.
type Queue struct {
	to    io.Writer
	max   int           // maximum number of bytes that are queued
	wake  chan struct{} // signals that there is text to write, or that the queue is closed
	ended chan struct{}

	mu      sync.Mutex
	waiting []byte
	lines   uint64 // number of queued lines
	dropped uint64
	closed  bool
}

// NewQueue returns a queue that writes to the parameter to. At most max bytes are
// queued, in addition to at most max bytes that are being written. Lines that do not
// fit are dropped.
func NewQueue(to io.Writer, max int) *Queue {
	q := &Queue{to: to, max: max, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go q.run()
	return q
}

// Write queues one line, or drops it if it does not fit or the queue is closed. It never
// blocks and never fails.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.waiting)+len(line) > q.max {
		q.dropped++
		return len(line), nil
	}
	q.waiting = append(q.waiting, line...)
	q.lines++
	q.signal()
	return len(line), nil
}

// Dropped returns the number of lines that were dropped because they did not fit or
// because the writer failed.
func (q *Queue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Close stops accepting lines and waits until the queued lines are written. If ctx ends
// first, Close returns the error of ctx; a write that has begun continues in the
// background.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal wakes the goroutine of run.
func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue) run() {
	defer close(q.ended)
	var spare []byte
	for range q.wake {
		text, lines, closed := q.take(spare)
		if len(text) > 0 {
			if _, err := q.to.Write(text); err != nil {
				q.countLost(lines)
			}
		}
		if spare = text; closed {
			return // no further line was queued during the write
		}
	}
}

// take returns the queued text and its number of lines, and empties the queue. The
// parameter spare becomes the buffer for the next lines.
func (q *Queue) take(spare []byte) (text []byte, lines uint64, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	text, lines = q.waiting, q.lines
	q.waiting, q.lines = spare[:0], 0
	return text, lines, q.closed
}

// countLost counts lines that could not be written as dropped.
func (q *Queue) countLost(lines uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += lines
}
