package respapi

import (
	"context"
	"runtime/debug"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

const (
	enough   = 16 << 10 // bytes of replies that are written before more is read
	mostJobs = 64       // decisions of one connection that are made at a time
)

// worker runs requests, one connection's at a time, with memory that it keeps. It belongs to one goroutine.
type worker struct {
	h    *Handler
	ctx  context.Context // of decisions
	out  []byte          // replies
	s    *session        // of the connection that is served
	in   []byte          // the request that is run
	mark int             // where the reply to that begins in out
	fold [longestName]byte

	recent *command          // the last one
	called [longestName]byte // its name, as the client wrote it

	last   [2]ready // by style
	job    job      // the decision that is made, of a worker that makes one at a time
	jobs   []*job   // those that are yet to be made, of one that makes many
	idle   []*job
	checks [1]engine.Check
}

func (h *Handler) newWorker(ctx context.Context) *worker {
	return &worker{h: h, ctx: ctx, out: make([]byte, 0, 2*enough)}
}

// serve runs the requests in the input of a connection until there are no more, the replies are enough for now, or the session is
// closing. It gives back how much of the input it has used; the rest must be there again, and more behind it, at the next call.
func (w *worker) serve(s *session, in []byte) (used int) {
	w.s = s
	defer w.guard(len(in), &used)
	bounds := w.h.boundsFor(s)
	for used < len(in) && !s.closing && len(w.out) < enough {
		n, err := s.reader.next(in[used:], bounds)
		if err != nil {
			w.settle()
			w.fail("ERR " + err.Error())
			s.closing = true
			return len(in)
		}
		if n == 0 {
			break
		}
		w.in = in[used : used+n]
		used += n
		if len(s.reader.args) > 0 {
			w.mark = len(w.out)
			w.run()
			bounds = w.h.boundsFor(s)
		}
	}
	w.settle()
	if cap(s.reader.args) > unauthenticatedArgs {
		s.reader.forget()
	}
	return used
}

// forget lets go of memory that an unusual request took.
func (r *reader) forget() {
	if !r.inside {
		r.args = nil
	}
}

// guard keeps a panic to the connection that it is of: that is closed behind the replies to what came before.
func (w *worker) guard(all int, used *int) {
	cause := recover()
	if cause == nil {
		return
	}
	w.h.log.Error("a request panicked", "cause", cause, "stack", string(debug.Stack()))
	w.jobs, w.out = nil, w.out[:w.mark]
	w.fail("ERR internal error")
	w.s.closing, *used = true, all
}

// arg is an argument of the request that is run; 0 is the command.
func (w *worker) arg(i int) []byte {
	s := w.s.reader.args[i]
	return w.in[s.start:s.end]
}

func (w *worker) args() int { return len(w.s.reader.args) }

// run runs one request, or keeps it for the end of its transaction.
func (w *worker) run() {
	c := w.command()
	if w.s.multi != nil && (c == nil || !c.steers || !c.takes(w.args())) {
		w.settle()
		w.enqueue(c)
		return
	}
	w.runNow(c)
}

// runNow runs one request of c, which may be nil.
func (w *worker) runNow(c *command) {
	switch {
	case c == nil:
		w.unknown()
	case !w.s.welcome && !c.open:
		w.settle()
		w.fail("NOAUTH Authentication required.")
	case !c.takes(w.args()):
		w.wrongArity(c.name)
	default:
		if !c.decides {
			w.settle()
		}
		c.run(w)
	}
}

// unknown answers a command that there is none of. A browser that was made to send its requests here is cut off, or what a stranger's
// page puts into them would be run.
func (w *worker) unknown() {
	w.settle()
	name := w.arg(0)
	if !w.s.welcome {
		w.fail("NOAUTH Authentication required.")
	} else {
		w.fail("ERR unknown command '" + clip(name) + "'")
	}
	if equalFold(name, "post") || equalFold(name, "host:") {
		w.s.closing = true
	}
}

func (w *worker) wrongArity(name string) {
	w.settle()
	w.fail("ERR wrong number of arguments for '" + name + "' command")
}
