package headgate

import (
	"context"
	"sync"
	"sync/atomic"
)

// commits is the state of the commits of a private hold. A store may keep no record of a
// private hold that has ended, so only one commit at a time calls the store. A commit
// locks mu only if another one is running.
type commits struct {
	state atomic.Uint32 // one of the constants below
	mu    sync.Mutex
	next  chan struct{} // closed when the running commit ends; nil if no commit waits
}

// The values of commits.state.
const (
	noCommit      = iota
	commitRuns    // a commit is running, and no other waits
	commitAwaited // a commit is running, and others wait
	commitDone    // a commit has ended the hold
)

// begin waits until no other commit is running. Then the caller must call end, unless
// done is true: an earlier commit has ended the hold. begin returns the error of ctx if
// that ends earlier.
func (c *commits) begin(ctx context.Context) (done bool, err error) {
	for !c.state.CompareAndSwap(noCommit, commitRuns) {
		if c.state.Load() == commitDone {
			return true, nil
		}
		next := c.running()
		if next == nil {
			continue
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return false, nil
}

// running returns a channel that is closed when the running commit ends. The commit may
// have ended before running returns, so the caller must test the state again. running
// returns nil if no commit is running.
func (c *commits) running() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.state.CompareAndSwap(commitRuns, commitAwaited) && c.state.Load() != commitAwaited {
		return nil
	}
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// end ends the running commit. done reports whether it has ended the hold.
func (c *commits) end(done bool) {
	state := uint32(noCommit)
	if done {
		state = commitDone
	}
	if c.state.Swap(state) != commitAwaited {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}
