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
			g.observe(g.invalidEvent(r))
			writeInvalid(w, err)
			return
		}
		a, err := g.Attempt(r.Context(), Client{Addr: g.client.Addr(r), Account: account, Device: g.cookieToken(r)})
		switch {
		case err != nil:
			g.opts.ErrorHandler(w, r, err)
		case !a.Allowed():
			g.deny(w, r, a.RetryAfter())
		default:
			t := &guardedRequest{attempt: a, outer: guardedRequestOf(r.Context())}
			t.recorder = recorder.Recorder{ResponseWriter: w, Before: t.setCookie}
			t.serve(next, r)
		}
	})
}

func (g *Guard) invalidEvent(r *http.Request) Event {
	a := &Attempt{guard: g, client: Client{Addr: g.client.Addr(r)}}
	a.setKeys(headgate.StoreClock)
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
	for t := guardedRequestOf(r.Context()); t != nil; t = t.outer {
		t.failed.Store(true)
	}
}

// Succeeded says that the guess of this request was right, whatever the answer's status is. Say it before answering, so that
// [Options.DeviceCookie] can be set, and only when nothing can fail any more. It does nothing for a request that no guard let
// through.
func Succeeded(r *http.Request) {
	for t := guardedRequestOf(r.Context()); t != nil; t = t.outer {
		t.succeeded.Store(true)
	}
}

type requestKey struct{}

// tryOf is the try that the innermost guard let through; nil if none did.
func guardedRequestOf(ctx context.Context) *guardedRequest {
	t, _ := ctx.Value(requestKey{}).(*guardedRequest)
	return t
}

// try is a request that is let through.
type guardedRequest struct {
	recorder            recorder.Recorder
	attempt           *Attempt
	outer             *guardedRequest // of the guard around this one, if there is one: words are for all of them
	failed, succeeded atomic.Bool
}

// setCookie sets the cookie of a client that succeeded by all that the handler has said when its answer begins.
func (t *guardedRequest) setCookie() {
	if g := t.attempt.guard; g.opts.DeviceCookie != "" && t.succeeded.Load() && !t.failed.Load() {
		g.setCookie(t.recorder.ResponseWriter, t.attempt.Device())
	}
}

func (t *guardedRequest) serve(next http.Handler, r *http.Request) {
	returned := false
	defer func() { t.finish(r, returned) }()
	next.ServeHTTP(&t.recorder, r.WithContext(context.WithValue(r.Context(), requestKey{}, t)))
	if r.Context().Err() == nil {
		t.recorder.Begin(http.StatusOK) // what net/http answers for a handler that wrote nothing
	} // else it gave up, for a client that is gone: that says nothing of the guess
	returned = true
}

// settle says how the try ended. returned is false if the handler panicked.
func (t *guardedRequest) finish(r *http.Request, returned bool) {
	outcome, certain := t.outcome(returned)
	t.attempt.guard.checkHandler(outcome, certain, t.attempt.client.Account)
	switch outcome {
	case Success:
		if !certain && isSafeMethod(r.Method) {
			t.attempt.unmarkedParts = 0 // a page that was shown made nobody known, whatever name was in its address
		}
		ctx, done := turn.Detached(r.Context())
		defer done()
		_ = t.attempt.succeed(ctx, headgate.StoreClock, certain) // the observer has heard of it
	case Failure:
		t.attempt.Failed()
	default:
		t.attempt.keepCharge(KindUnknown)
	}
}

// shows is whether a method only asks for something to be shown: logins by it must say that they succeeded.
func isSafeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodTrace
}

// outcome is how the try ended, and whether more than a status says so.
func (t *guardedRequest) outcome(returned bool) (o Outcome, certain bool) {
	of, status := t.attempt.guard.opts.Outcome, t.recorder.Status()
	switch {
	case t.failed.Load():
		return Failure, true
	case t.succeeded.Load():
		return Success, true
	case !returned, status == 0:
		return Unknown, true
	case of != nil:
		return of(status, t.recorder.Header()), true
	}
	return ByStatus(status, t.recorder.Header()), false
}

func writeInvalid(w http.ResponseWriter, err error) {
	p := problem.Problem{Type: problem.Plain, Status: http.StatusBadRequest, Detail: "The request could not be read."}
	switch {
	case errors.Is(err, errTooLarge):
		p.Status, p.Detail = http.StatusRequestEntityTooLarge, "The request is too large."
	case errors.Is(err, errContentType):
		p.Status, p.Detail = http.StatusUnsupportedMediaType, "The request's content type is not accepted here."
	case errors.Is(err, errAmbiguous):
		p.Detail = "The request names more than one account."
	}
	problem.Write(w, p)
}
