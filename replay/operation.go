package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// operation is an operation of a JSON line with the field op, other than take:
//
//	{"ts_us":1,"key":"k","op":"hold","id":"a","cost":5,"ttl_us":60000000}
//	{"ts_us":9,"key":"k","op":"commit","id":"a","actual":2}
//
// A record stores it as JSON, a line feed and then the key. Records without an operation
// store the key only.
type operation struct {
	Verb   string `json:"op"`
	ID     string `json:"id,omitempty"`
	Cost   int64  `json:"cost,omitempty"`
	TTL    int64  `json:"ttl_us,omitempty"` // in µs
	Actual int64  `json:"actual,omitempty"`
}

// operationVerbs are the valid values of the field op, in the order in which the error
// message lists them.
var operationVerbs = []string{"take", "hold", "commit", "extend", "cancel", "debit", "up_to", "refund", "reset"}

// parseOperation parses the fields of an operation. cost is the field cost of the line.
// The result is nil for a take.
func parseOperation(fields map[string]json.RawMessage, cost int64) (op *operation, reason string) {
	op = &operation{Cost: cost}
	if err := json.Unmarshal(fields["op"], &op.Verb); err != nil || !slices.Contains(operationVerbs, op.Verb) {
		return nil, "op is not one of " + strings.Join(operationVerbs, ", ")
	}
	switch op.Verb {
	case "take":
		return nil, ""
	case "commit", "extend", "cancel", "reset":
		op.Cost = 0
	}
	switch op.Verb {
	case "hold", "commit", "extend", "cancel":
		if err := json.Unmarshal(orNull(fields["id"]), &op.ID); err != nil || op.ID == "" || len(op.ID) > 128 {
			return nil, "id is not a text of 1 to 128 bytes"
		}
	}
	if op.Verb == "hold" || op.Verb == "extend" {
		ttl := time.Duration(0)
		if wholeNumber(fields["ttl_us"], &op.TTL) && op.TTL <= headgate.MaxHoldTTL.Microseconds() {
			ttl = time.Duration(op.TTL) * time.Microsecond
		}
		if ttl < headgate.MinHoldTTL {
			return nil, "ttl_us is not a whole number from 1000 (1 ms) to 604800000000 (7 days)"
		}
	}
	if op.Verb == "commit" && (!wholeNumber(fields["actual"], &op.Actual) || op.Actual < 0 || op.Actual > headgate.MaxWindowUnits) {
		return nil, "actual is not a whole number from 0 to 9007199254740991"
	}
	if op.Cost > headgate.MaxWindowUnits {
		return nil, "cost is above 9007199254740991"
	}
	return op, ""
}

// withKey returns the text that a record stores for an operation on a key.
func (op *operation) withKey(key []byte) []byte {
	text, err := json.Marshal(op)
	if err != nil {
		panic(err) // unreachable: texts and numbers can always be encoded
	}
	return append(append(text, '\n'), key...)
}

// splitOperation is the inverse of withKey.
func splitOperation(text string) (op *operation, key string) {
	encoded, key, _ := strings.Cut(text, "\n")
	op = &operation{}
	if err := json.Unmarshal([]byte(encoded), op); err != nil {
		panic(err) // unreachable: withKey encoded it
	}
	return op, key
}

// outcome is the result of an operation, in addition to its decision.
type outcome struct {
	granted   int64
	replayed  bool
	errorCode string // value of the field error; empty if there was no error
}

// operate executes the operation of a request. An error of a hold, such as an unknown
// id, is part of the outcome; any other error ends the replay.
func (l *policyReplay) operate(ctx context.Context, q *request) (d headgate.Decision, out outcome, err error) {
	now, op := headgate.Instant(q.at).Time(), q.op
	switch op.Verb {
	case "hold", "commit", "cancel", "extend":
		d, out.replayed, err = l.operateHold(ctx, now, q)
	case "debit":
		d, err = l.limiter.DebitAt(ctx, now, q.key, op.Cost)
	case "up_to":
		out.granted, d, err = l.limiter.TakeUpToAt(ctx, now, q.key, op.Cost)
	case "refund":
		d, err = l.limiter.RefundAt(ctx, now, q.key, op.Cost)
	default:
		d, err = l.limiter.ResetAt(ctx, now, q.key)
	}
	if out.errorCode = errorCodeOf(err); out.errorCode != "" {
		d, err = l.limiter.PeekAt(ctx, now, q.key, 0)
		d.Allowed = op.Verb != "hold"
	}
	return d, out, err
}

// errorCodeOf returns the value of the field error for an error of a hold, or "".
func errorCodeOf(err error) string {
	for target, name := range map[error]string{
		headgate.ErrUnknownHold: "unknown_hold", headgate.ErrExpiredHold: "expired_hold",
		headgate.ErrHoldConflict: "conflict", headgate.ErrTooManyHolds: "too_many_holds",
	} {
		if errors.Is(err, target) {
			return name
		}
	}
	return ""
}

func (l *policyReplay) operateHold(ctx context.Context, now time.Time, q *request) (d headgate.Decision, replayed bool, err error) {
	ttl := time.Duration(q.op.TTL) * time.Microsecond
	if q.op.Verb == "hold" {
		return l.openHold(ctx, now, q, ttl)
	}
	h, err := l.findHold(now, q)
	if err != nil {
		return d, false, err
	}
	var r headgate.HoldResult
	switch q.op.Verb {
	case "extend":
		r, err = h.ExtendAt(ctx, now, ttl)
	case "cancel":
		r, err = h.CancelAt(ctx, now)
	default:
		r, err = h.CommitAt(ctx, now, q.op.Actual)
	}
	return r.Decision, r.Replayed, err
}

// decideOperation executes the operation of request i of the batch.
func (l *policyReplay) decideOperation(ctx context.Context, q *request, i int) (err error) {
	var out outcome
	if l.decisions[i], out, err = l.operate(ctx, q); err != nil {
		return fmt.Errorf("replay: %s of %s at %d µs: %w", q.op.Verb, cmp.Or(l.policy.Algorithm, headgate.TokenBucket), q.at, err)
	}
	l.outcomes.Store(i, out)
	return nil
}

// appendOperation appends the fields of an operation to the JSON object of its decision.
func appendOperation(dst []byte, op *operation, out outcome) []byte {
	dst = append(append(append(dst, `,"op":"`...), op.Verb...), '"')
	if op.ID != "" {
		dst = appendJSONString(append(dst, `,"id":`...), op.ID)
	}
	if op.Verb == "up_to" {
		dst = strconv.AppendInt(append(dst, `,"granted":`...), out.granted, 10)
	}
	if out.replayed {
		dst = append(dst, `,"replayed":true`...)
	}
	if out.errorCode != "" {
		dst = append(append(append(dst, `,"error":"`...), out.errorCode...), '"')
	}
	return dst
}
