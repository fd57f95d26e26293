package httpapi

import (
	"context"
	"slices"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// operation is an operation of the API that returns a decision.
type operation struct {
	path     string
	accepted fields // fields of the body
	run      func(ctx context.Context, active *engine.ActiveConfig, c *call) error
	// appendFields appends the fields of the response that only this operation has; may
	// be nil.
	appendFields func(b []byte, c *call) []byte
}

var operations = []*operation{
	{path: "/v1/check", accepted: requestFields, run: decide(headgate.Take)},
	{path: "/v1/peek", accepted: requestFields, run: decide(headgate.Peek)},
	{path: "/v1/refund", accepted: requestFields, run: decide(headgate.Refund)},
	{path: "/v1/reset", accepted: requestFields, run: decide(headgate.Reset)},
	{path: "/v1/hold", accepted: requestFields | idField | ttlField, run: openHold, appendFields: appendOpened},
	{path: "/v1/commit", accepted: holdField | actualField, run: commitHold, appendFields: appendCommitted},
	{path: "/v1/extend", accepted: holdsField | ttlField, run: extendHolds, appendFields: appendExtended},
	{path: "/v1/cancel", accepted: holdField, run: cancelHold, appendFields: appendReplayed},
	{path: "/v1/debit", accepted: requestFields, run: debit},
	{path: "/v1/take-up-to", accepted: requestFields, run: takeUpTo, appendFields: appendGranted},
}

func decide(verb headgate.Verb) func(context.Context, *engine.ActiveConfig, *call) error {
	return func(ctx context.Context, active *engine.ActiveConfig, c *call) error {
		return active.Decide(ctx, verb, c.in.checks, &c.answer)
	}
}

func openHold(ctx context.Context, active *engine.ActiveConfig, c *call) error {
	id, err := engine.NewHoldID(c.in.id)
	if err != nil {
		return err
	}
	c.opened = engine.ClientHold{ID: id, Checks: c.in.checks}
	if err := c.opened.CheckSize(c.maxBody); err != nil {
		return err
	}
	return active.Hold(ctx, headgate.StoreClock, c.in.ttl, &c.opened, &c.answer)
}

func commitHold(ctx context.Context, active *engine.ActiveConfig, c *call) error {
	hold, actual := &c.in.holds[0], c.in.actual
	if c.in.same {
		actual = slices.Repeat(actual, len(hold.Checks))
	}
	return active.Commit(ctx, headgate.StoreClock, hold, actual, &c.answer)
}

func cancelHold(ctx context.Context, active *engine.ActiveConfig, c *call) error {
	return active.Cancel(ctx, headgate.StoreClock, &c.in.holds[0], &c.answer)
}

func extendHolds(ctx context.Context, active *engine.ActiveConfig, c *call) error {
	return active.Extend(ctx, headgate.StoreClock, c.in.ttl, c.in.holds, &c.answer)
}

func debit(ctx context.Context, active *engine.ActiveConfig, c *call) error {
	return active.Debit(ctx, headgate.StoreClock, c.in.checks, &c.answer)
}

func takeUpTo(ctx context.Context, active *engine.ActiveConfig, c *call) error {
	return active.TakeUpTo(ctx, headgate.StoreClock, c.in.checks, &c.answer)
}

// appendOpened appends the token and the deadline of a hold, if it was opened.
func appendOpened(b []byte, c *call) []byte {
	b = appendReplayed(b, c)
	if !c.answer.Allowed {
		return b
	}
	return appendHold(b, &c.opened)
}

// appendHold appends the token and the deadline of a hold.
func appendHold(b []byte, h *engine.ClientHold) []byte {
	b = append(b, `,"hold":`...)
	b = appendString(b, h.Token())
	b = append(b, `,"expires_at":`...)
	return appendTime(b, h.Expires.Time())
}

func appendReplayed(b []byte, c *call) []byte {
	return strconv.AppendBool(append(b, `,"replayed":`...), c.answer.Replayed)
}

// appendCommitted appends the fields of a commit.
func appendCommitted(b []byte, c *call) []byte {
	if b = appendReplayed(b, c); c.answer.Uncounted == 0 {
		return b
	}
	return appendInt(b, `,"uncounted":`, c.answer.Uncounted)
}

func appendGranted(b []byte, c *call) []byte {
	return appendInt(b, `,"granted":`, c.answer.Granted)
}

// appendExtended appends the result for each hold.
func appendExtended(b []byte, c *call) []byte {
	b = append(b, `,"holds":[`...)
	for i := range c.in.holds {
		if i > 0 {
			b = append(b, ',')
		}
		h := &c.in.holds[i]
		b = strconv.AppendBool(append(b, `{"extended":`...), h.Err == nil)
		if h.Err == nil {
			b = appendHold(b, h)
		} else {
			b = appendString(append(b, `,"error":`...), h.ErrorName())
		}
		b = append(b, '}')
	}
	return append(b, ']')
}
