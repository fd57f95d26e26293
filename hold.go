package headgate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// The accepted range of the TTL of a hold.
const (
	MinHoldTTL = time.Millisecond
	MaxHoldTTL = 7 * 24 * time.Hour
)

// Hold is a charge that can be corrected when the actual cost is known. [Limiter.Hold]
// and [HoldAll] open a hold, [Hold.Commit] and [Hold.Cancel] end it. Its methods may be
// called concurrently.
//
// A commit with a lower cost has the same effect as if that cost had been charged at the
// beginning. A refund does not, because the bucket may have been full in the meantime. A
// hold that is neither committed nor extended expires after its TTL, also if its process
// has ended: see [OnExpiry].
type Hold struct {
	checks   []Check
	first    [1]Check // memory of checks if there is only one
	id       HoldID
	decision Decision
	expires  atomic.Int64 // deadline as an Instant
	commits  commits
	private  bool // whether the id was generated here
	replayed bool
}

// HoldOptions are the settings of [HoldAll].
type HoldOptions struct {
	// ID identifies the hold among the holds of its keys: at most 128 bytes; if empty, a
	// random ID is generated. If the reply was lost, repeat the request with the same ID:
	// it charges nothing again. If one of the keys has a hold with this ID that was
	// opened with other keys or costs, the error is [ErrHoldConflict]. A request with
	// other keys only opens another hold. Use a different ID for each piece of work.
	//
	// Package lease can open a hold without an ID in the memory of this process. Leased
	// is then set in its decision, and only this process can end it.
	ID string
	// TTL is the time after which the hold expires: [MinHoldTTL] to [MaxHoldTTL]. It
	// should be longer than the work takes.
	TTL time.Duration
}

// Hold spends amount units of key, like [Limiter.AllowN], and opens a hold that expires
// after ttl. If the units are not available, nothing is spent and [Hold.OK] is false: a
// denial is not an error. Hold returns [ErrUnsupported] for a leaky bucket or a store
// without holds, [ErrTooManyHolds] if the key has [HoldSettings.MaxOpen] open holds,
// [ErrInvalidCost] if amount is above [MaxWindowUnits], and [ErrInvalidHold] if ttl is
// not [MinHoldTTL] to [MaxHoldTTL].
func (l *Limiter) Hold(ctx context.Context, key string, amount int64, ttl time.Duration) (*Hold, error) {
	return hold(ctx, StoreClock, &HoldOptions{TTL: ttl}, []Check{{l, key, amount}})
}

// HoldAt is like [Limiter.Hold] at the time now.
func (l *Limiter) HoldAt(ctx context.Context, now time.Time, key string, amount int64, ttl time.Duration) (*Hold, error) {
	return hold(ctx, InstantOf(now), &HoldOptions{TTL: ttl}, []Check{{l, key, amount}})
}

// HoldAll spends the cost of all checks, or of none, like [AllowAll], and opens one hold
// for them. It returns the errors of [Limiter.Hold], and [ErrInvalidHold] if two checks
// have the same policy and key and different limits; see [Limiter.WithLimits]. opts is
// required, because of its TTL.
func HoldAll(ctx context.Context, opts *HoldOptions, checks ...Check) (*Hold, error) {
	return hold(ctx, StoreClock, opts, checks)
}

// HoldAllAt is like [HoldAll] at the time now.
func HoldAllAt(ctx context.Context, now time.Time, opts *HoldOptions, checks ...Check) (*Hold, error) {
	return hold(ctx, InstantOf(now), opts, checks)
}

func hold(ctx context.Context, now Instant, opts *HoldOptions, checks []Check) (*Hold, error) {
	id, err := opts.id()
	if err != nil {
		return nil, err
	}
	if err := checkTTL(opts.TTL); err != nil {
		return nil, err
	}
	h := &Hold{id: id, private: opts.ID == ""}
	h.checks = append(h.first[:0], checks...)
	result, at, err := h.apply(ctx, now, OpenHold, opts.TTL, nil)
	if err != nil {
		return nil, err
	}
	h.decision, h.replayed = result.Decision, result.Replayed
	h.setExpires(result.Deadline, at, opts.TTL)
	return h, nil
}

// setExpires stores the deadline of a hold that was opened or extended at an instant. If
// no store has the hold, deadline is 0.
func (h *Hold) setExpires(deadline, at Instant, ttl time.Duration) {
	if deadline == 0 {
		deadline = at + Instant(ttl.Microseconds())
	}
	h.expires.Store(int64(deadline))
}

// id returns the HoldID of the options' ID.
func (o *HoldOptions) id() (id HoldID, err error) {
	if o == nil {
		return id, fmt.Errorf("%w: options are nil; a TTL is required", ErrInvalidHold)
	}
	return HoldIDOf(o.ID)
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinHoldTTL || ttl > MaxHoldTTL {
		return fmt.Errorf("%w: ttl is %v; must be 1ms to 168h (7 days)", ErrInvalidHold, ttl)
	}
	return nil
}

// apply executes verb for every limit of every check, and returns the combined result and
// its instant. costs has the cost of each check; if it is nil, the costs are those of the
// checks.
func (h *Hold) apply(
	ctx context.Context, now Instant, verb HoldVerb, ttl time.Duration, costs []int64,
) (result HoldResult, at Instant, err error) {
	if len(h.checks) == 1 && h.checks[0].Limiter != nil && h.checks[0].Limiter.holdBound != nil {
		return h.applyOne(ctx, now, verb, ttl, costs)
	}
	ops, err := opsOf(now, withCosts(h.checks, costs))
	if err != nil {
		return result, 0, err
	}
	for _, c := range withCosts(h.checks, costs) {
		l := c.Limiter
		if err := checkHoldCost(verb, l.policy.Algorithm, &l.policy.Limits[0], c.Cost); err != nil {
			return result, 0, err
		}
	}
	results := make([]HoldResult, len(ops))
	at, err = applyHoldOps(ctx, h.checks[0].Limiter.store, now, verb, ttl, h.ops(ops), results)
	h.observe(ctx, costs, verb, at, results, err)
	if err != nil {
		return result, 0, err
	}
	result, err = h.finalResult(at, costs, 0, results)
	return result, at, err
}

// checkHoldCost returns [ErrInvalidCost] for a cost that a store cannot add up exactly:
// it would be truncated to [MaxWindowUnits], and the rest would not be counted. The error
// has the maximum and the next step.
func checkHoldCost(verb HoldVerb, a Algorithm, limit *Limit, cost int64) error {
	if cost <= MaxUnits {
		return nil // usual case
	}
	maxCost := int64(MaxWindowUnits)
	if verb.charges() && !limit.isUncounted() {
		maxCost = a.MaxDebit()
	}
	if cost <= maxCost {
		return nil
	}
	next := ""
	switch verb {
	case CommitHold:
		next = fmt.Sprintf(" in a commit under %s; the hold is still open: commit at most %d, or cancel it", a, maxCost)
	case Debit:
		next = fmt.Sprintf(" in a debit under %s; charge the cost with several debits", a)
	}
	return fmt.Errorf("%w: cost is %d; must be 0 to %d%s", ErrInvalidCost, cost, maxCost, next)
}

// charges reports whether the verb can charge units that are not available.
func (v HoldVerb) charges() bool { return v == CommitHold || v == Debit }

// methodName returns the name of the operation in the error of a store without holds:
// Debit, TakeUpTo or holds.
func (v HoldVerb) methodName() string {
	switch v {
	case Debit:
		return "Debit"
	case TakeUpTo:
		return "TakeUpTo"
	default:
		return "holds"
	}
}

// applyOne is apply for one check with one limit, if its store is a [HoldBound].
func (h *Hold) applyOne(
	ctx context.Context, now Instant, verb HoldVerb, ttl time.Duration, costs []int64,
) (result HoldResult, at Instant, err error) {
	c := &h.checks[0]
	l, cost := c.Limiter, c.Cost
	if costs != nil {
		cost = costs[0]
	}
	if err = checkRequest(now, cost); err == nil {
		err = checkHoldCost(verb, l.policy.Algorithm, &l.policy.Limits[0], cost)
	}
	if err == nil {
		op := HoldOp{Op: Op{Bound: l.bound, Key: c.Key, Cost: cost}, ID: h.id, Private: h.private}
		if result, at, err = l.holdBound.ApplyHold(ctx, now, verb, ttl, op); err != nil {
			result, err = h.finalResult(at, nil, 0, []HoldResult{{Decision: result.Decision, Err: err}})
		}
	}
	if l.observer != nil {
		l.observeHold(ctx, verb, cost, &result, err)
	}
	return result, at, err
}

// observeHold calls the observer with the result of an operation on one check.
func (l *Limiter) observeHold(ctx context.Context, verb HoldVerb, cost int64, r *HoldResult, err error) {
	observe(ctx, l.observer, Event{
		Policy: l.policy.Name, Verb: verb.String(), Cost: cost, Decision: r.Decision, Err: err, Uncounted: r.Uncounted,
	})
}

// observe calls the observer of every limiter with the result of that limiter's check.
// costs is as in apply.
func (h *Hold) observe(ctx context.Context, costs []int64, verb HoldVerb, at Instant, results []HoldResult, err error) {
	first := 0 // index of the first limit of the check
	for i, c := range h.checks {
		end := first + len(c.Limiter.bounds)
		if c.Limiter.observer != nil {
			e := Event{Policy: c.Limiter.policy.Name, Verb: verb.String(), Cost: c.Cost, Err: err}
			if costs != nil {
				e.Cost = costs[i]
			}
			if err == nil {
				var result HoldResult
				result, e.Err = h.finalResult(at, costs, first, results[first:end])
				e.Decision, e.Uncounted = result.Decision, result.Uncounted
			}
			observe(ctx, c.Limiter.observer, e)
		}
		first = end
	}
}

func withCosts(checks []Check, costs []int64) []Check {
	if costs == nil {
		return checks
	}
	changed := append([]Check(nil), checks...)
	for i := range changed {
		changed[i].Cost = costs[i]
	}
	return changed
}

func (h *Hold) ops(ops []Op) []HoldOp {
	out := make([]HoldOp, len(ops))
	for i, op := range ops {
		out[i] = HoldOp{Op: op, ID: h.id, Private: h.private}
	}
	return out
}

// ResumeHold returns a hold that was opened before, possibly by another process, with the
// arguments that [Hold.ID] and [Hold.ExpiresAt] returned and the same checks. Another
// process gets the id with [HoldIDOf] or [ParseHoldID]. ResumeHold does no I/O. If the
// store has no such hold, the methods of the result return [ErrUnknownHold] or
// [ErrExpiredHold].
func ResumeHold(id HoldID, expires time.Time, checks ...Check) *Hold {
	h := &Hold{id: id, checks: append([]Check(nil), checks...)}
	h.expires.Store(int64(InstantOf(expires)))
	return h
}

// ID returns the id of the hold.
func (h *Hold) ID() HoldID { return h.id }

// OK reports whether the units were spent and a hold was opened.
func (h *Hold) OK() bool { return h.decision.Allowed }

// Decision returns the decision on the hold, as [AllowAll] does for checks.
func (h *Hold) Decision() Decision { return h.decision }

// Replayed reports whether the hold had been opened before, by a request with the same
// ID.
func (h *Hold) Replayed() bool { return h.replayed }

// ExpiresAt returns the deadline of the hold, as it was opened or last extended with h.
// If [Hold.Replayed] is true, it is the deadline that the hold had at that time.
func (h *Hold) ExpiresAt() time.Time { return Instant(h.expires.Load()).Time() }

// Commit ends the hold with the actual cost of each check, in the order of the checks,
// and returns the decision of a peek with cost 0. [HoldSettings.ExcessPolicy] applies to
// an actual cost above the amount. Commit may be called again if its reply was lost: only
// the first call has an effect. If the id of the hold is random, a call waits for a
// commit of h that is in progress. Commit returns [ErrInvalidCost] if an actual cost is
// above [Algorithm.MaxDebit]: nothing changes, and the hold stays open until its
// deadline. Commit at most that cost, or cancel the hold.
//
// If no limit has the hold anymore, the error is [ErrExpiredHold] or [ErrUnknownHold]. If
// only some limits have it, Commit corrects them. It then returns the error in two cases:
// a limit of concurrent units has lost the hold, or a limit without the hold has not
// counted the units above its amount. The error has the number of these units: charge
// them with [Limiter.Debit]. If failure mode open allowed the hold, Commit has no effect,
// and Degraded of its result is set; see also [HoldResult.Uncounted].
func (h *Hold) Commit(ctx context.Context, actual ...int64) (HoldResult, error) {
	return h.commit(ctx, StoreClock, actual)
}

// CommitAt is like [Hold.Commit] at the time now.
func (h *Hold) CommitAt(ctx context.Context, now time.Time, actual ...int64) (HoldResult, error) {
	return h.commit(ctx, InstantOf(now), actual)
}

// Cancel ends the hold as if nothing had been charged: it is Commit with 0.
func (h *Hold) Cancel(ctx context.Context) (HoldResult, error) {
	return h.commit(ctx, StoreClock, make([]int64, len(h.checks)))
}

// CancelAt is like [Hold.Cancel] at the time now.
func (h *Hold) CancelAt(ctx context.Context, now time.Time) (HoldResult, error) {
	return h.commit(ctx, InstantOf(now), make([]int64, len(h.checks)))
}

func (h *Hold) commit(ctx context.Context, now Instant, actual []int64) (result HoldResult, err error) {
	if len(actual) != len(h.checks) {
		return HoldResult{}, fmt.Errorf("%w: %d actual costs for %d checks; must be one for each check", ErrInvalidHold, len(actual), len(h.checks))
	}
	if !h.private {
		result, _, err = h.apply(ctx, now, CommitHold, 0, actual)
		return result, err
	}
	done, err := h.commits.begin(ctx)
	if err != nil {
		return HoldResult{}, err
	}
	if done {
		d, err := applyAll(ctx, now, withCosts(h.checks, make([]int64, len(h.checks))), true)
		return HoldResult{Decision: d, Replayed: true}, err
	}
	defer func() { h.commits.end(done) }()
	result, _, err = h.apply(ctx, now, CommitHold, 0, actual)
	done = err == nil && result.Degraded == ReasonNone
	return result, err
}

// Extend sets the deadline of the hold to the present time plus ttl. It returns
// [ErrExpiredHold] or [ErrUnknownHold] if the hold is not open, or if a limit of
// concurrent units no longer has the hold, although other limits do.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) (HoldResult, error) {
	return h.extend(ctx, StoreClock, ttl)
}

// ExtendAt is like [Hold.Extend] at the time now.
func (h *Hold) ExtendAt(ctx context.Context, now time.Time, ttl time.Duration) (HoldResult, error) {
	return h.extend(ctx, InstantOf(now), ttl)
}

func (h *Hold) extend(ctx context.Context, now Instant, ttl time.Duration) (HoldResult, error) {
	if err := checkTTL(ttl); err != nil {
		return HoldResult{}, err
	}
	result, at, err := h.apply(ctx, now, ExtendHold, ttl, nil)
	if err == nil {
		h.setExpires(result.Deadline, at, ttl)
	}
	return result, err
}
