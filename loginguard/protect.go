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

// Protect returns a handler that limits requests to next. Every request counts as an
// attempt, whatever its method, so use Protect only for routes that accept guesses. The
// handler reports the outcome with [Failed] or [Succeeded]; otherwise [Options.Outcome]
// determines the outcome from the response. If the handler panics or responds with 500
// or above, the attempt stays charged: attackers gain nothing by making the handler
// crash.
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
			gr := &guardedRequest{attempt: a, outer: guardedRequestOf(r.Context())}
			gr.recorder = recorder.Recorder{ResponseWriter: w, Before: gr.setCookie}
			gr.serve(next, r)
		}
	})
}

func (g *Guard) invalidEvent(r *http.Request) Event {
	a := &Attempt{guard: g, client: Client{Addr: g.client.Addr(r)}}
	a.setKeys(headgate.StoreClock)
	return a.event(KindInvalid, nil)
}

// deny writes the response to a denied attempt. The response depends neither on which
// limit denied nor on whether the account exists.
func (g *Guard) deny(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	w.Header().Set("Cache-Control", "no-store")
	if wait > 0 { // 0 means that no wait helps
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	g.opts.DeniedHandler(w, r, &httplimit.Denial{
		Decision: headgate.Decision{RetryAfter: wait},
		Policies: []string{g.opts.Name},
	})
}

// Failed reports that the guess in this request was wrong, whatever the status of the
// response is. It overrides Succeeded, whether Succeeded is called earlier or later. It
// does nothing for a request that did not pass through a guard.
func Failed(r *http.Request) {
	for gr := guardedRequestOf(r.Context()); gr != nil; gr = gr.outer {
		gr.failed.Store(true)
	}
}

// Succeeded reports that the guess in this request was right, whatever the status of
// the response is. Call it before writing the response, so that [Options.DeviceCookie]
// can be set, and only when the login can no longer fail. It does nothing for a request
// that did not pass through a guard.
func Succeeded(r *http.Request) {
	for gr := guardedRequestOf(r.Context()); gr != nil; gr = gr.outer {
		gr.succeeded.Store(true)
	}
}

type requestKey struct{}

// guardedRequestOf returns the request state of the innermost guard, or nil if ctx
// passed through no guard.
func guardedRequestOf(ctx context.Context) *guardedRequest {
	gr, _ := ctx.Value(requestKey{}).(*guardedRequest)
	return gr
}

// guardedRequest is the state of a request that a guard allowed.
type guardedRequest struct {
	recorder recorder.Recorder
	attempt  *Attempt
	// the state of the guard around this guard, or nil; outcomes are reported to both
	outer             *guardedRequest
	failed, succeeded atomic.Bool
}

// setCookie sets the device cookie if the handler has reported a success, and no
// failure, before it writes the response.
func (gr *guardedRequest) setCookie() {
	if g := gr.attempt.guard; g.opts.DeviceCookie != "" && gr.succeeded.Load() && !gr.failed.Load() {
		g.setCookie(gr.recorder.ResponseWriter, gr.attempt.Device())
	}
}

func (gr *guardedRequest) serve(next http.Handler, r *http.Request) {
	returned := false
	defer func() { gr.finish(r, returned) }()
	next.ServeHTTP(&gr.recorder, r.WithContext(context.WithValue(r.Context(), requestKey{}, gr)))
	if r.Context().Err() == nil {
		// net/http sends this status if a handler has written nothing.
		gr.recorder.Begin(http.StatusOK)
	} // otherwise the client has disconnected and the outcome is unknown
	returned = true
}

// finish determines the outcome of the attempt and reports it. returned is false if the
// handler panicked.
func (gr *guardedRequest) finish(r *http.Request, returned bool) {
	outcome, certain := gr.outcome(returned)
	gr.attempt.guard.checkHandler(outcome, certain, gr.attempt.client.Account)
	switch outcome {
	case Success:
		if !certain && isSafeMethod(r.Method) {
			// A page view is not a login, even if its URL contains an account: do not
			// mark the pair of account and address as known.
			gr.attempt.unmarkedParts = 0
		}
		ctx, done := turn.Detached(r.Context())
		defer done()
		// succeed has already reported the error to the observer
		_ = gr.attempt.succeed(ctx, headgate.StoreClock, certain)
	case Failure:
		gr.attempt.Failed()
	default:
		gr.attempt.keepCharge(KindUnknown)
	}
}

// isSafeMethod reports whether HTTP defines a method as safe. If a request with a safe
// method is judged a success by its status, its pair is not marked as known.
func isSafeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodTrace
}

// outcome returns the outcome of the attempt. returned is false if the handler
// panicked. certain is false if the outcome is judged by the response status only.
func (gr *guardedRequest) outcome(returned bool) (o Outcome, certain bool) {
	byResponse, status := gr.attempt.guard.opts.Outcome, gr.recorder.Status()
	switch {
	case gr.failed.Load():
		return Failure, true
	case gr.succeeded.Load():
		return Success, true
	case !returned, status == 0:
		return Unknown, true
	case byResponse != nil:
		return byResponse(status, gr.recorder.Header()), true
	}
	return ByStatus(status, gr.recorder.Header()), false
}

func writeInvalid(w http.ResponseWriter, err error) {
	p := problem.Problem{Type: problem.Plain, Status: http.StatusBadRequest, Detail: "The request body could not be read."}
	switch {
	case errors.Is(err, errTooLarge):
		p.Status, p.Detail = http.StatusRequestEntityTooLarge, "The request body is too large."
	case errors.Is(err, errContentType):
		p.Status, p.Detail = http.StatusUnsupportedMediaType, "The content type of the request body is not supported."
	case errors.Is(err, errQuery):
		p.Detail = "The query string could not be read."
	case errors.Is(err, errAmbiguous):
		p.Detail = "The request contains more than one account."
	}
	problem.Write(w, p)
}
