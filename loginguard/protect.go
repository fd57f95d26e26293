package loginguard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/problem"
	"github.com/headgate/headgate/internal/recorder"
	"github.com/headgate/headgate/internal/turn"
)

// Protect puts the guard before a handler: every request is a try, whatever its method, so mount it on those that are. How a try
// ended the handler says by [Failed] and [Succeeded], or else its answer does, by [Options.Outcome]. A handler that panics, or
// answers 500 or above, leaves the try charged: an attacker who can make it crash gains nothing.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account, err := g.account(r)
		if err != nil {
			g.observe(g.refusal(r))
			refuse(w, err)
			return
		}
		a, err := g.Attempt(r.Context(), Client{Addr: g.client.Addr(r), Account: account, Device: g.tokenOf(r)})
		switch {
		case err != nil:
			g.opts.ErrorHandler(w, r, err)
		case !a.Allowed():
			g.deny(w, r, a.RetryAfter())
		default:
			t := &try{attempt: a, outer: tryOf(r.Context())}
			t.answer = recorder.Recorder{ResponseWriter: w, Before: t.setCookie}
			t.serve(next, r)
		}
	})
}

func (g *Guard) refusal(r *http.Request) Event {
	a := &Attempt{guard: g, client: Client{Addr: g.client.Addr(r)}}
	a.name(headgate.StoreClock)
	return a.event(KindInvalid, nil)
}

// deny answers the same whichever limit denied, and whether the account exists or not.
func (g *Guard) deny(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	w.Header().Set("Cache-Control", "no-store")
	if wait > 0 { // else no wait helps
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	g.opts.DeniedHandler(w, r, &httplimit.Denial{
		Decision: headgate.Decision{RetryAfter: wait},
		Policies: []string{g.opts.Name},
	})
}

// Failed says that the guess of this request was wrong, whatever the answer's status is. It has the last word: a success that was
// said before, or is after, does not count. It does nothing for a request that no guard let through.
func Failed(r *http.Request) {
	for t := tryOf(r.Context()); t != nil; t = t.outer {
		t.failed.Store(true)
	}
}

// Succeeded says that the guess of this request was right, whatever the answer's status is. Say it before answering, so that
// [Options.DeviceCookie] can be set, and only when nothing can fail any more. It does nothing for a request that no guard let
// through.
func Succeeded(r *http.Request) {
	for t := tryOf(r.Context()); t != nil; t = t.outer {
		t.succeeded.Store(true)
	}
}

type tryKey struct{}

// tryOf is the try that the innermost guard let through; nil if none did.
func tryOf(ctx context.Context) *try {
	t, _ := ctx.Value(tryKey{}).(*try)
	return t
}

// try is a request that is let through.
type try struct {
	answer            recorder.Recorder
	attempt           *Attempt
	outer             *try // of the guard around this one, if there is one: words are for all of them
	failed, succeeded atomic.Bool
}

// setCookie sets the cookie of a client that succeeded by all that the handler has said when its answer begins.
func (t *try) setCookie() {
	if g := t.attempt.guard; g.opts.DeviceCookie != "" && t.succeeded.Load() && !t.failed.Load() {
		g.setCookie(t.answer.ResponseWriter, t.attempt.Device())
	}
}

func (t *try) serve(next http.Handler, r *http.Request) {
	returned := false
	defer func() { t.settle(r, returned) }()
	next.ServeHTTP(&t.answer, r.WithContext(context.WithValue(r.Context(), tryKey{}, t)))
	if r.Context().Err() == nil {
		t.answer.Begin(http.StatusOK) // what net/http answers for a handler that wrote nothing
	} // else it gave up, for a client that is gone: that says nothing of the guess
	returned = true
}

// settle says how the try ended. returned is false if the handler panicked.
func (t *try) settle(r *http.Request, returned bool) {
	outcome, certain := t.outcome(returned)
	t.attempt.guard.count(outcome, certain, t.attempt.client.Account)
	switch outcome {
	case Success:
		if !certain && shows(r.Method) {
			t.attempt.unmarked = 0 // a page that was shown made nobody known, whatever name was in its address
		}
		ctx, done := turn.Detached(r.Context())
		defer done()
		_ = t.attempt.succeed(ctx, headgate.StoreClock, certain) // the observer has heard of it
	case Failure:
		t.attempt.Failed()
	default:
		t.attempt.keep(KindUnknown)
	}
}

// shows is whether a method only asks for something to be shown: logins by it must say that they succeeded.
func shows(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodTrace
}

// outcome is how the try ended, and whether more than a status says so.
func (t *try) outcome(returned bool) (o Outcome, certain bool) {
	of, status := t.attempt.guard.opts.Outcome, t.answer.Status()
	switch {
	case t.failed.Load():
		return Failure, true
	case t.succeeded.Load():
		return Success, true
	case !returned, status == 0:
		return Unknown, true
	case of != nil:
		return of(status, t.answer.Header()), true
	}
	return ByStatus(status, t.answer.Header()), false
}

func refuse(w http.ResponseWriter, err error) {
	p := problem.Problem{Type: problem.Plain, Status: http.StatusBadRequest, Detail: "The request could not be read."}
	switch {
	case errors.Is(err, errTooLarge):
		p.Status, p.Detail = http.StatusRequestEntityTooLarge, "The request is too large."
	case errors.Is(err, errType):
		p.Status, p.Detail = http.StatusUnsupportedMediaType, "The request's content type is not accepted here."
	case errors.Is(err, errAmbiguous):
		p.Detail = "The request names more than one account."
	}
	problem.Write(w, p)
}
