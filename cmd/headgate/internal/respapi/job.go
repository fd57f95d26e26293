package respapi

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// style is how a decision is told.
type style uint8

const (
	cellStyle style = iota // CL.THROTTLE
	crabStyle              // THROTTLE
	ownStyle               // HG.…
)

// job is one decision that a client asked for.
type job struct {
	style  style
	verb   headgate.Verb
	policy string             // or
	own    engine.InlineLimit // where policy is empty
	key    string             // in the request's own memory, if the decision is made at once
	cost   int64              // units
	check  engine.Check       // what is asked, while it is asked
	answer engine.Answer
	err    error
	next   *job // of the same key, behind it
	behind bool // another goes before it
}

// newJob is a job to be filled and submitted.
func (w *worker) newJob() *job {
	if !w.h.networked {
		return &w.job
	}
	if n := len(w.idle); n > 0 {
		j := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return j
	}
	return new(job)
}

// text is an argument as a string for the job that is being filled: of a job that is done at once it lies in the request.
func (w *worker) textOf(arg []byte) string {
	if w.h.networked {
		return string(arg)
	}
	return unsafe.String(unsafe.SliceData(arg), len(arg))
}

// submit makes the decision and replies, or keeps it for when all that came with it are made.
func (w *worker) submit(j *job) {
	if !w.h.networked {
		w.checks[0] = engine.Check{Policy: j.policy, Inline: j.limit(), Key: j.key, Cost: j.cost}
		j.err = w.h.engine.Decide(w.ctx, j.verb, w.checks[:], &j.answer)
		w.tell(j)
		return
	}
	w.jobs = append(w.jobs, j)
	if len(w.jobs) == mostJobs {
		w.settle()
	}
}

func (j *job) limit() *engine.InlineLimit {
	if j.policy != "" {
		return nil
	}
	return &j.own
}

// settle makes the decisions that were kept and replies to them, in their order.
func (w *worker) settle() {
	if len(w.jobs) == 0 {
		return
	}
	w.decideAll()
	for _, j := range w.jobs {
		w.tell(j)
		*j = job{answer: j.answer}
		w.idle = append(w.idle, j)
	}
	w.jobs = w.jobs[:0]
}

// decideAll makes all decisions at a time, but for those of the same key: they are made one behind the other.
func (w *worker) decideAll() {
	if len(w.jobs) == 1 {
		w.jobs[0].decide(w)
		return
	}
	last := make(map[string]*job, len(w.jobs))
	for _, j := range w.jobs {
		if before := last[j.key]; before != nil {
			before.next, j.behind = j, true
		}
		last[j.key] = j
	}
	var all sync.WaitGroup
	for _, j := range w.jobs {
		if !j.behind {
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

// decide makes one decision, on any goroutine.
func (j *job) decide(w *worker) {
	defer func() {
		if cause := recover(); cause != nil {
			w.h.log.Error("a decision panicked", "cause", cause)
			j.err = errPanic
		}
	}()
	j.check = engine.Check{Policy: j.policy, Inline: j.limit(), Key: j.key, Cost: j.cost}
	j.err = w.h.engine.Decide(w.ctx, j.verb, []engine.Check{j.check}, &j.answer)
}

// tell replies to a decision.
func (w *worker) tell(j *job) {
	if j.err != nil {
		w.tellError(j)
		return
	}
	switch d := &j.answer.Decision; j.style {
	case cellStyle:
		w.tellCell(d)
	case crabStyle:
		w.tellCrab(d)
	default:
		w.tellOwn(&j.answer)
	}
}

// tellError replies to a request that was not decided.
func (w *worker) tellError(j *job) {
	kind, text := reason(j.err)
	switch {
	case j.style == cellStyle:
		w.fail(cellError + text)
	case j.style == crabStyle:
		w.fail(crabError + text)
	case kind == engine.UnknownPolicy:
		w.fail("NOPOLICY " + text)
	case kind == engine.StoreFailure:
		w.fail("UNDECIDED " + text)
	default:
		w.fail("ERR " + text)
	}
}

// reason is why there is no decision, in one line.
func reason(err error) (engine.ErrorKind, string) { return engine.ErrorKindOf(err), engine.Reason(err) }
