// Package logs keeps a log from doing harm to who writes it: a reader that does not read stops nobody, a flood of equal lines is cut short,
// and no line of a server tells who its clients are.
package logs

import (
	"context"
	"io"
	"sync"
)

// Queue writes lines behind the back of who logs them: nobody waits for a pipe that is full. It is made with [NewQueue], may be used
// concurrently, and must be closed.
type Queue struct {
	to    io.Writer
	most  int           // bytes that wait
	wake  chan struct{} // there is something to write, or nothing will come any more
	ended chan struct{}

	mu      sync.Mutex
	waiting []byte
	lines   uint64 // in waiting
	dropped uint64
	closed  bool
}

// NewQueue begins to write to a writer. At most so many bytes wait for it, beside as many that it is being given: a line beyond them is
// dropped.
func NewQueue(to io.Writer, most int) *Queue {
	q := &Queue{to: to, most: most, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go q.run()
	return q
}

// Write takes one line, or drops it if there is no room or the queue is closed. It never waits, and never fails.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.waiting)+len(line) > q.most {
		q.dropped++
		return len(line), nil
	}
	q.waiting = append(q.waiting, line...)
	q.lines++
	q.tell()
	return len(line), nil
}

// Dropped is how many lines were lost: there was no room for them, or the writer failed.
func (q *Queue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Close takes no more lines, and waits until those that were taken are written, or until ctx ends, whose error it then returns. What is
// being written by then goes on.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.tell()
	q.mu.Unlock()
	select {
	case <-q.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *Queue) tell() {
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
				q.lost(lines)
			}
		}
		if spare = text; closed {
			return // nothing was taken behind what was just written
		}
	}
}

// take is what waits; spare is for what comes next.
func (q *Queue) take(spare []byte) (text []byte, lines uint64, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	text, lines = q.waiting, q.lines
	q.waiting, q.lines = spare[:0], 0
	return text, lines, q.closed
}

func (q *Queue) lost(lines uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += lines
}
