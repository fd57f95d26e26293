package respapi

import (
	"context"
	"errors"
	"sync"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// replyStyle is the format of the reply to a decision.
type replyStyle uint8

const (
	redisCellStyle    replyStyle = iota // CL.THROTTLE
	throttlecrabStyle                   // THROTTLE
	headgateStyle                       // HG.*
)

// job is one decision that a client requested.
type job struct {
	style  replyStyle
	verb   headgate.Verb
	policy string             // policy name; empty means that inline is the limit
	inline engine.InlineLimit // limit in the request
	key    string             // refers to the input buffer if the store is not networked
	cost   int64              // in units
	call   *call              // used instead of the fields above for several checks and for holds; else nil
	check  engine.Check       // valid while the decision is made
	answer engine.Answer
	err    error
	next   *job // next queued decision with the same key
	waits  bool // whether an earlier decision with the same key must be made first
	span   span // name and parent of the span, if decisions are traced
}

// newJob returns a job for the caller to fill in and submit.
func (w *worker) newJob() *job {
	if !w.h.networked {
		w.job.call = nil
		return &w.job
	}
	if n := len(w.idle); n > 0 {
		j := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return j
	}
	return new(job)
}

// textOf returns an argument as a string for use in a job. If the store is not
// networked, the string refers to the input buffer and is not copied.
func (w *worker) textOf(arg []byte) string {
	if w.h.networked {
		return string(arg)
	}
	return unsafe.String(unsafe.SliceData(arg), len(arg))
}

// submit makes the decision and writes the reply. With a networked store, it queues the
// job instead, so that pipelined decisions are made concurrently.
func (w *worker) submit(j *job) {
	if !w.h.networked {
		w.checks[0] = engine.Check{Policy: j.policy, Inline: j.limit(), Key: j.key, Cost: j.cost}
		if w.h.tracer == nil {
			j.err = w.h.engine.Decide(w.ctx, j.verb, w.checks[:], &j.answer)
		} else {
			j.err = w.traced(w.nextSpan(), func(ctx context.Context) error {
				return w.h.engine.Decide(ctx, j.verb, w.checks[:], &j.answer)
			})
		}
		w.writeReply(j)
		return
	}
	w.queue(j)
}

// queue queues a job for a networked store.
func (w *worker) queue(j *job) {
	if w.h.tracer != nil {
		j.span = w.nextSpan()
	}
	w.jobs = append(w.jobs, j)
	if len(w.jobs) == maxJobs {
		w.flush()
	}
}

func (j *job) limit() *engine.InlineLimit {
	if j.policy != "" {
		return nil
	}
	return &j.inline
}

// flush makes the queued decisions and writes the replies in the order of the requests.
func (w *worker) flush() {
	if len(w.jobs) == 0 {
		return
	}
	w.decideAll()
	for _, j := range w.jobs {
		w.writeReply(j)
		w.release(j)
	}
	w.jobs = w.jobs[:0]
}

// release makes a job available to newJob.
func (w *worker) release(j *job) {
	*j = job{answer: j.answer}
	w.idle = append(w.idle, j)
}

// decideAll makes the queued decisions concurrently, except that decisions with the
// same key are made in the order of the requests.
func (w *worker) decideAll() {
	if len(w.jobs) == 1 {
		w.jobs[0].decide(w)
		return
	}
	last := make(map[string]*job, len(w.jobs))
	for _, j := range w.jobs {
		if before := last[j.key]; before != nil {
			before.next, j.waits = j, true
		}
		last[j.key] = j
	}
	var all sync.WaitGroup
	for _, j := range w.jobs {
		if !j.waits {
			all.Go(func() {
				for ; j != nil; j = j.next {
					j.decide(w)
				}
			})
		}
	}
	all.Wait()
}

var errPanic = errors.New("internal error")

// decide makes one decision. It may run on any goroutine.
func (j *job) decide(w *worker) {
	defer func() {
		if cause := recover(); cause != nil {
			w.h.log.Error("panic while handling request", "error", cause)
			j.err = errPanic
		}
	}()
	j.err = w.traced(j.span, func(ctx context.Context) error {
		if j.call != nil {
			return j.call.run(ctx, w.h.engine.ActiveConfig(), &j.answer)
		}
		j.check = engine.Check{Policy: j.policy, Inline: j.limit(), Key: j.key, Cost: j.cost}
		return w.h.engine.Decide(ctx, j.verb, []engine.Check{j.check}, &j.answer)
	})
}

// writeReply writes the reply to a decision.
func (w *worker) writeReply(j *job) {
	if j.err != nil {
		w.writeError(j)
		return
	}
	switch d := &j.answer.Decision; j.style {
	case redisCellStyle:
		w.writeRedisCell(d)
	case throttlecrabStyle:
		w.writeThrottlecrab(d)
	default:
		if j.call != nil {
			j.call.writeReply(w, &j.answer)
			return
		}
		w.writeDecision(&j.answer, 0)
	}
}

// writeError writes the reply to a request for which no decision was made.
func (w *worker) writeError(j *job) {
	kind, text := errorText(j.err)
	switch {
	case j.style == redisCellStyle:
		w.fail(redisCellError + text)
	case j.style == throttlecrabStyle:
		w.fail(throttlecrabError + text)
	default:
		w.fail(errorWords[kind] + " " + text)
	}
}

// errorWords are the first words of error replies to HG.*.
var errorWords = [...]string{
	engine.StoreFailure:   "UNDECIDED",
	engine.InvalidRequest: "ERR",
	engine.UnknownPolicy:  "NOPOLICY",
	engine.UnknownHold:    "NOHOLD",
	engine.ExpiredHold:    "EXPIREDHOLD",
	engine.HoldConflict:   "CONFLICT",
	engine.TooManyHolds:   "TOOMANYHOLDS",
}

// errorText returns the kind of an error and its text in one line.
func errorText(err error) (engine.ErrorKind, string) {
	return engine.ErrorKindOf(err), engine.Reason(err)
}
