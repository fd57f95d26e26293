package respapi

import (
	"context"
	"strings"
)

// Tracer starts the spans of decisions. It may be used concurrently.
type Tracer interface {
	// Command starts the span of a command. traceparent is the parent that the client has
	// sent, or empty. end is called after the decision, with the error that prevented it
	// or nil.
	Command(ctx context.Context, name, traceparent string) (_ context.Context, end func(err error))
}

// span is the name and the parent of the span of a decision.
type span struct{ command, traceparent string }

// nextSpan returns the span of the current request. It returns the zero value if
// decisions are not traced.
func (w *worker) nextSpan() (s span) {
	if w.h.tracer == nil {
		return s
	}
	if w.lastCommand != nil {
		s.command = strings.ToUpper(w.lastCommand.name)
	}
	s.traceparent, w.s.traceparent = w.s.traceparent, ""
	return s
}

// traced calls decide, within a span if decisions are traced.
func (w *worker) traced(s span, decide func(context.Context) error) (err error) {
	if w.h.tracer == nil {
		return decide(w.ctx)
	}
	ctx, end := w.h.tracer.Command(w.ctx, s.command, s.traceparent)
	defer func() { end(err) }()
	return decide(ctx)
}

// The length of a traceparent of version 00, and the maximum for later versions.
const (
	traceparentBytes    = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	maxTraceparentBytes = 128
)

// hgTrace runs HG.TRACE traceparent. Without tracing, it has no effect, so that a client
// need not know whether the service traces decisions.
func (w *worker) hgTrace() {
	text := w.arg(1)
	if !isTraceparent(text) {
		w.fail("ERR traceparent is " + truncate(text) + "; must be like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		return
	}
	if w.h.tracer != nil {
		w.s.traceparent = string(text)
	}
	w.ok()
}

// isTraceparent reports whether a text has the form of a traceparent: version, trace,
// parent and flags as hexadecimal digits. A later version may have further fields.
func isTraceparent(text []byte) bool {
	if len(text) < traceparentBytes || len(text) > maxTraceparentBytes || len(text) > traceparentBytes && text[traceparentBytes] != '-' {
		return false
	}
	for i, c := range text[:traceparentBytes] {
		if isDash := i == 2 || i == 35 || i == 52; isDash != (c == '-') || !isDash && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
