package llmusage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/turn"
)

// AbortedPolicy selects the cost that is committed for an answer that ends before its
// usage is known: the client has disconnected, the connection to the provider was lost,
// or the provider sends no usage.
type AbortedPolicy uint8

// The values of [AbortedPolicy]. Neither of them refunds everything: a client could
// otherwise read almost all of an answer, disconnect, and pay nothing.
const (
	// CommitEstimate commits [Options].Estimate.
	CommitEstimate AbortedPolicy = iota
	// CommitCounted commits the cost of what was counted until the end: the input that
	// the provider has reported, or else [Options].Input, and one token for each 4 bytes
	// of output. It may be less than the provider charges.
	CommitCounted
)

// bytesPerToken is the number of bytes of output for which [CommitCounted] counts a
// token.
const bytesPerToken = 4

// Result describes the end of an answer.
type Result struct {
	Usage Usage // usage that was committed; zero if the estimate was committed
	// Reported is true if the provider has reported the usage of the whole answer. It is
	// false if the answer ended before, or has none.
	Reported bool
	Status   int   // status of the answer
	Events   int64 // server-sent events that were read
	// Actual has the cost that was committed for each check of the hold.
	Actual []int64
	Commit headgate.HoldResult // result of the commit
	// Err is the error of the commit, or nil. If it matches [headgate.ErrExpiredHold],
	// the settings of the policy for expired holds have applied.
	Err error
}

// Options are the settings of [Track]. Estimate and Cost are required. A field with the
// zero value has the default given in its comment.
type Options struct {
	// Estimate are the actual costs of an answer whose usage is unknown, one for each
	// check: usually the amounts of the hold, and 0 for a check of concurrent requests.
	// With another number of elements, the commit fails, and Err of [Result] is set.
	Estimate []int64
	// Cost returns the actual cost of each check, in the order of the checks of the hold.
	// The cost of a check that counts requests is 1 for every usage, and that of a check
	// of concurrent requests is 0.
	Cost func(Usage) []int64
	// Aborted selects the cost if the usage is unknown. The zero value is
	// [CommitEstimate].
	Aborted AbortedPolicy
	// Input is the estimated number of tokens of the request, for [CommitCounted].
	Input int64
	// Failed are the actual costs of an answer with a status of 400 or above and without
	// usage, for which providers charge nothing. nil means [Options].Cost of the zero
	// Usage.
	Failed []int64
	// Extend is the TTL to which the hold is extended while the answer is read, whenever
	// a third of it has passed. 0 means that the hold is not extended, so that an answer
	// that takes longer than the TTL of the hold costs its estimate.
	Extend time.Duration
	// Now returns the time of a commit and of an extension, for tests and simulations.
	// nil means the clock of the store.
	Now func() time.Time
	// Done receives the result, once, on the goroutine that reads or closes the answer.
	// nil discards it.
	Done func(Result)
}

// ErrInvalidOptions is matched by every error of [Track].
var ErrInvalidOptions = errors.New("llmusage: invalid options")

// Track replaces resp.Body by a body that reads the usage of the answer and commits it to
// hold when the answer has been read to its end, or when the body is closed. The caller
// must close the body, also if the client has disconnected, as
// [net/http/httputil.ReverseProxy] does. Commit takes one store operation with a timeout
// of one second, which does not end with ctx. The new body must not be used concurrently.
// Track does no I/O.
func Track(ctx context.Context, resp *http.Response, hold *headgate.Hold, opts *Options) error {
	switch {
	case opts == nil || opts.Cost == nil || len(opts.Estimate) == 0:
		return fmt.Errorf("%w: Estimate and Cost are required, and Estimate has one cost for each check", ErrInvalidOptions)
	case hold == nil || !hold.OK():
		return fmt.Errorf("%w: the hold is not open; check Hold.OK before the request is forwarded", ErrInvalidOptions)
	}
	t := &tracker{ctx: ctx, body: resp.Body, hold: hold, opts: opts, status: resp.StatusCode}
	t.scanner.found = t.found
	t.feed = t.reader(resp.Header)
	t.extended = t.now()
	resp.Body = t
	return nil
}

// tracker is the body of an answer.
type tracker struct {
	ctx      context.Context
	body     io.ReadCloser
	hold     *headgate.Hold
	opts     *Options
	status   int
	scanner  scanner
	events   *events
	feed     func([]byte) // reads the usage in the bytes of the body; nil if it has none
	inflate  *inflater    // nil if the answer is not compressed
	usage    Usage
	reported bool
	total    bool      // whether the last usage is that of the whole answer, if no output follows
	output   int64     // bytes of output before that usage
	ended    bool      // whether the answer was read to its end
	extended time.Time // when the hold was opened or last extended
	once     sync.Once
}

// reader returns the function that reads the usage of an answer with the given header, or
// nil if its usage is unknown.
func (t *tracker) reader(h http.Header) func([]byte) {
	feed := t.scanner.feed
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case kind == "text/event-stream":
		t.events = newEvents(&t.scanner)
		feed = t.events.feed
	case kind != "application/json" && !strings.HasSuffix(kind, "+json"):
		return nil
	}
	switch encoding := strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return feed
	case "gzip", "x-gzip":
		t.inflate = newInflater(feed)
		return t.inflate.feed
	default:
		return nil
	}
}

// found is called for each usage object. The one in the message that begins a stream has
// the final input and the first tokens of the output only. A provider may also report the
// usage with each part of a stream. Such a report is not the total: its event has output,
// or output follows it, or it has no tokens of output.
func (t *tracker) found(usage []byte, in parentKind) {
	if !t.usage.merge(usage) || in == messageParent {
		return
	}
	t.reported, t.output = true, t.scanner.textLen
	t.total = t.events == nil || in == responseParent || t.usage.Output > 0 && t.output == t.scanner.textBefore
}

// isTotal reports whether the usage is that of the whole answer.
func (t *tracker) isTotal() bool {
	return t.reported && (t.ended || t.total && t.scanner.textLen == t.output)
}

// Read implements [io.Reader].
func (t *tracker) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	if n > 0 && t.feed != nil {
		t.feed(p[:n])
	}
	if err != nil {
		t.ended = err == io.EOF
		t.finish()
		return n, err
	}
	t.extend()
	return n, nil
}

// Close implements [io.Closer].
func (t *tracker) Close() error {
	err := t.body.Close()
	t.finish()
	return err
}

func (t *tracker) now() time.Time {
	if t.opts.Now == nil {
		return time.Now()
	}
	return t.opts.Now()
}

// extend extends the hold if a third of its TTL has passed. If that fails, it tries again
// in the same time: the hold may expire, but the answer is not interrupted.
func (t *tracker) extend() {
	if t.opts.Extend == 0 {
		return
	}
	now := t.now()
	if now.Sub(t.extended) < t.opts.Extend/3 {
		return
	}
	t.extended = now
	ctx, cancel := turn.Detached(t.ctx)
	defer cancel()
	if t.opts.Now == nil {
		_, _ = t.hold.Extend(ctx, t.opts.Extend)
	} else {
		_, _ = t.hold.ExtendAt(ctx, now, t.opts.Extend)
	}
}

// finish commits the hold, in the first call.
func (t *tracker) finish() {
	t.once.Do(func() {
		if t.inflate != nil {
			t.inflate.close()
		}
		r := t.result()
		ctx, cancel := turn.Detached(t.ctx)
		defer cancel()
		if t.opts.Now == nil {
			r.Commit, r.Err = t.hold.Commit(ctx, r.Actual...)
		} else {
			r.Commit, r.Err = t.hold.CommitAt(ctx, t.opts.Now(), r.Actual...)
		}
		if t.opts.Done != nil {
			t.opts.Done(r)
		}
	})
}

// result returns the result, with the costs to commit.
func (t *tracker) result() Result {
	r := Result{Status: t.status, Reported: t.isTotal()}
	if t.events != nil {
		r.Events = t.events.count
	}
	switch {
	case r.Reported:
		r.Usage = t.usage
	case t.status >= http.StatusBadRequest && t.opts.Failed != nil:
		r.Actual = t.opts.Failed
		return r
	case t.status >= http.StatusBadRequest:
	case t.opts.Aborted == CommitCounted && t.feed != nil:
		r.Usage = t.counted()
	default:
		r.Actual = t.opts.Estimate
		return r
	}
	r.Actual = t.opts.Cost(r.Usage)
	return r
}

// counted returns the usage of an answer that ended before the provider reported it.
func (t *tracker) counted() Usage {
	u := t.usage
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input = t.opts.Input
	}
	u.Output = max(u.Output, (t.scanner.textLen+bytesPerToken-1)/bytesPerToken)
	return u
}
