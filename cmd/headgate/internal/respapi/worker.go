package respapi

import (
	"context"
	"runtime/debug"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

const (
	maxReplyBatch = 16 << 10 // size of replies in bytes at which they are sent before more requests are served
	maxJobs       = 64       // maximum number of concurrent decisions for one connection
)

// worker runs the requests of one connection at a time, and reuses its memory. Only one
// goroutine uses it.
type worker struct {
	h          *Handler
	ctx        context.Context // context for decisions
	out        []byte          // replies that are not yet sent
	s          *session        // session of the current connection
	in         []byte          // the current request
	replyStart int             // start of the current request's reply in out
	foldBuffer [maxNameLength]byte

	lastCommand *command            // command of the previous request
	lastName    [maxNameLength]byte // the command's name as the client wrote it

	lastLimits [2]parsedLimit // limit of the previous request, by replyStyle
	job        job            // the only job, if the store is not networked
	jobs       []*job         // queued decisions, if the store is networked
	idle       []*job
	checks     [1]engine.Check
}

func (h *Handler) newWorker(ctx context.Context) *worker {
	return &worker{h: h, ctx: ctx, out: make([]byte, 0, 2*maxReplyBatch)}
}

// serve runs the requests in the input of a connection. It stops at an incomplete
// request, after maxReplyBatch bytes of replies, or if the session is closing. used is
// the number of bytes of input that it has processed. The caller must pass the
// remaining bytes again, followed by new input.
func (w *worker) serve(s *session, in []byte) (used int) {
	w.s = s
	defer w.recoverPanic(len(in), &used)
	bounds := w.h.boundsFor(s)
	for used < len(in) && !s.closing && len(w.out) < maxReplyBatch {
		n, err := s.reader.next(in[used:], bounds)
		if err != nil {
			w.flush()
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
			w.replyStart = len(w.out)
			w.run()
			bounds = w.h.boundsFor(s)
		}
	}
	w.flush()
	if cap(s.reader.args) > unauthenticatedArgs {
		s.reader.release()
	}
	return used
}

// release frees the argument list after a request with unusually many arguments.
func (r *reader) release() {
	if !r.inside {
		r.args = nil
	}
}

// recoverPanic limits the effect of a panic to its connection, which is closed after
// the replies to the earlier requests. The parameter all is the length of the input.
func (w *worker) recoverPanic(all int, used *int) {
	cause := recover()
	if cause == nil {
		return
	}
	w.h.log.Error("panic while handling request", "error", cause, "stack", string(debug.Stack()))
	w.jobs, w.out = nil, w.out[:w.replyStart]
	w.fail("ERR internal error")
	w.s.closing, *used = true, all
}

// arg returns argument i of the current request. Argument 0 is the command name.
func (w *worker) arg(i int) []byte {
	s := w.s.reader.args[i]
	return w.in[s.start:s.end]
}

func (w *worker) args() int { return len(w.s.reader.args) }

// run executes the current request. In a transaction, it queues the request for EXEC
// instead, if the command can be queued.
func (w *worker) run() {
	c := w.command()
	if w.s.multi != nil && (c == nil || !c.immediate || !c.acceptsArgs(w.args())) {
		w.flush()
		w.enqueue(c)
		return
	}
	w.runNow(c)
}

// runNow executes the current request with command c; nil means that the command is
// unknown.
func (w *worker) runNow(c *command) {
	switch {
	case c == nil:
		w.unknownCommand()
	case !w.s.authenticated && !c.beforeAuth:
		w.flush()
		w.fail("NOAUTH Authentication required.")
	case !c.acceptsArgs(w.args()):
		w.wrongArity(c.name)
	case !w.permits(c.scope):
		w.noPermission(c.name)
	default:
		if !c.decides {
			w.flush()
		}
		c.run(w)
	}
}

// unknownCommand replies to a request whose command is unknown. If the client appears
// to speak HTTP, it closes the connection. Otherwise, a web page could make a browser
// send commands in the body of an HTTP request.
func (w *worker) unknownCommand() {
	w.flush()
	name := w.arg(0)
	if !w.s.authenticated {
		w.fail("NOAUTH Authentication required.")
	} else {
		w.fail("ERR unknown command '" + truncate(name) + "'; this is Headgate, not Redis: " +
			"it supports CL.THROTTLE, THROTTLE and HG.*, see COMMAND DOCS")
	}
	if equalFold(name, "post") || equalFold(name, "host:") {
		w.s.closing = true
	}
}

func (w *worker) wrongArity(name string) {
	w.flush()
	w.fail("ERR wrong number of arguments for '" + name + "' command")
}
