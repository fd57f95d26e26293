package rlsapi

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// charge processes the refunds and the charges of all descriptors in the store, and
// reports whether the request is over its limits.
func (r *requestState) charge(ctx context.Context) (isOver bool, err error) {
	r.decisions = r.decisions[:0]
	r.denyBlocked(ctx)
	r.countBlocked(ctx)
	if _, err := r.askAll(ctx, setOf(refunded), headgate.Refund); err != nil {
		return false, err
	}
	switch {
	case r.handler.opts.Charge == Each:
		err = r.chargeEach(ctx, setOf(counted, shadowed), headgate.Take)
		return r.isOver(), err
	case r.handler.opts.Shadow:
		err = r.chargeEach(ctx, setOf(counted), headgate.Take)
	default:
		err = r.chargeTogether(ctx)
	}
	if err != nil {
		return false, err
	}
	isOver = r.isOver()
	verb := headgate.Take
	if isOver && !r.chargesEach() {
		verb = headgate.Peek
	}
	return isOver, r.chargeEach(ctx, setOf(shadowed), verb)
}

// dispositions is a set of dispositions.
type dispositions uint8

func setOf(all ...disposition) (set dispositions) {
	for _, d := range all {
		set |= 1 << d
	}
	return set
}

func (s dispositions) has(d disposition) bool { return s&(1<<d) != 0 }

// chargesEach reports whether each descriptor is charged separately, independent of the
// decisions about the other descriptors.
func (r *requestState) chargesEach() bool {
	return r.handler.opts.Charge == Each || r.handler.opts.Shadow
}

// denyBlocked sets the decisions of descriptors whose limit is 0, without the store.
func (r *requestState) denyBlocked(ctx context.Context) {
	for i := range r.descriptors {
		d := &r.descriptors[i]
		if !isBlocked(d.limits) {
			continue
		}
		r.decisions = append(r.decisions, headgate.Decision{})
		d.decisions = r.decisions[len(r.decisions)-1:]
		if d.cost == 0 {
			continue
		}
		if r.isEnforced() {
			d.verdict = over
		}
		r.reportBlocked(ctx, d)
	}
}

// reportBlocked reports the denial of a descriptor whose limit is 0 for logs and
// metrics.
func (r *requestState) reportBlocked(ctx context.Context, d *descriptor) {
	limit := makeRefund(&d.limits[0])
	r.snapshot.ReportDenial(ctx, &engine.Check{
		Inline: &limit, Rule: d.ruleName, Key: d.key, Cost: d.cost, Composed: true,
		Reported: &headgate.Limit{Period: d.limits[0].Period}, Shadow: d.disposition == shadowed,
	}, &r.answer)
}

func (r *requestState) isEnforced() bool { return isEnforced(r.snapshot) }

func isEnforced(s *engine.ActiveConfig) bool {
	e := s.Enforcement()
	return e != engine.Off && e != engine.Shadow
}

// isOver reports whether the request is over its limits: a descriptor without quota
// mode is over its limit, or all descriptors in quota mode are over theirs.
func (r *requestState) isOver() bool {
	quotas, passed := false, false
	for i := range r.descriptors {
		d := &r.descriptors[i]
		switch {
		case d.quota && d.disposition == counted:
			quotas, passed = true, passed || d.verdict != over
		case d.quota:
			passed = true
		case d.disposition == counted && d.verdict == over:
			return true
		}
	}
	return quotas && !passed
}

// chargeTogether charges all counted descriptors, or none of them. Each attempt is one
// atomic store operation. If descriptors in quota mode are over their limits, the next
// attempt leaves them out. The loop ends because each attempt except the last marks at
// least one more descriptor as over. The variable worst is the largest verdict among
// the descriptors of the current attempt only.
func (r *requestState) chargeTogether(ctx context.Context) error {
	for verb := headgate.Take; ; {
		if r.isOver() {
			verb = headgate.Peek
		}
		worst, err := r.askAll(ctx, setOf(counted), verb)
		if err != nil || worst == allowed || worst == over && (verb == headgate.Peek || r.isOver()) {
			return err
		}
	}
}

// chargeEach charges each descriptor of some dispositions separately. It first tries all
// of them in one operation. If all are allowed, as in most requests, this operation is
// the only one.
func (r *requestState) chargeEach(ctx context.Context, of dispositions, verb headgate.Verb) error {
	worst, err := r.askAll(ctx, of, verb)
	if err != nil || worst == allowed {
		return err
	}
	single := len(r.asked) == 1
	for i := range r.descriptors {
		d := &r.descriptors[i]
		if !of.has(d.disposition) || isBlocked(d.limits) {
			continue
		}
		if !single {
			r.asked = append(r.asked[:0], d)
			if _, err := r.ask(ctx, verb); err != nil {
				return err
			}
		}
		if err := r.countDenied(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// countDenied counts the hits of a descriptor that is over the limit of its fixed window.
// Reason: with [Each], envoyproxy/ratelimit also counts denied hits. With
// [Options].LocalDenials, it counts only those of the request that exceeds the limit.
func (r *requestState) countDenied(ctx context.Context, d *descriptor) error {
	if d.counting == nil || d.verdict != over || !d.isWindow() || d.hitsCounted {
		return nil
	}
	if r.handler.opts.LocalDenials && d.spent >= d.decisions[0].Limit {
		d.isLocal = true
		return nil
	}
	return r.count(ctx, d, d.counting, d.cost)
}

// count counts hits of a descriptor, or as many as remain of a limit.
func (r *requestState) count(ctx context.Context, d *descriptor, limit *engine.InlineLimit, hits int64) error {
	for hits > 0 {
		r.checks = append(r.checks[:0], engine.Check{Inline: limit, Rule: d.ruleName, Key: d.key, Cost: hits, Composed: true})
		if err := r.snapshot.Count(ctx, r.now, r.checks, &r.answer); err != nil || r.answer.Decisions[0].Allowed {
			return err
		}
		hits = min(hits-1, r.answer.Decisions[0].Remaining)
	}
	return nil
}

// countBlocked counts the hits of descriptors whose limit is 0, so that later requests of
// 0 hits are over the limit. An error is ignored, because the decision does not depend on
// it. With [Options].LocalDenials, one hit in a window is counted.
func (r *requestState) countBlocked(ctx context.Context) {
	for i := range r.descriptors {
		d := &r.descriptors[i]
		switch {
		case d.blocked == nil || !isBlocked(d.limits) || !r.isEnforced():
		case r.handler.opts.LocalDenials:
			_ = r.count(ctx, d, d.blocked[0].Inline, 1)
		default:
			_ = r.count(ctx, d, d.counting, d.cost)
		}
	}
}

// askAll decides, in one store operation, on the descriptors whose disposition is in of
// and that are not yet over their limits. Descriptors without quota mode come first, so
// that descriptors in quota mode cannot spend units that the others need. With [Each],
// all descriptors are in the order of the request.
func (r *requestState) askAll(ctx context.Context, of dispositions, verb headgate.Verb) (worst verdict, err error) {
	r.asked = r.asked[:0]
	for _, quota := range [...]bool{false, true} {
		for i := range r.descriptors {
			d := &r.descriptors[i]
			isTurn := d.quota == quota
			if r.handler.opts.Charge == Each {
				isTurn = !quota
			}
			if of.has(d.disposition) && isTurn && d.verdict != over && !isBlocked(d.limits) {
				r.asked = append(r.asked, d)
			}
		}
	}
	return r.ask(ctx, verb)
}

// ask decides on the descriptors in r.asked in one store operation and sets their
// results. It returns the worst verdict in this operation, before
// [descriptor.applyOverflow].
func (r *requestState) ask(ctx context.Context, verb headgate.Verb) (worst verdict, err error) {
	if len(r.asked) == 0 {
		return allowed, nil
	}
	r.checks = r.checks[:0]
	for _, d := range r.asked {
		for j := range d.limits {
			r.checks = append(r.checks, engine.Check{
				Inline: d.limits[j].Inline, Rule: d.ruleName, Key: d.key, Cost: d.cost, Composed: true,
				Reported: d.logged, Shadow: d.disposition == shadowed,
			})
		}
	}
	if err := r.decide(ctx, verb); err != nil {
		return allowed, err
	}
	begin := len(r.decisions)
	r.decisions = append(r.decisions, r.answer.Decisions...)
	for i, d := range r.asked {
		end := begin + len(d.limits)
		d.judge(r.decisions[begin:end], r.asked[:i])
		worst, begin = max(worst, d.verdict), end
	}
	for _, d := range r.asked {
		if verb == headgate.Take && worst == allowed && r.isEnforced() {
			d.remainingAfterOwn(r.asked)
		}
		d.applyOverflow(r.isEnforced())
	}
	return worst, nil
}

// decide lets the engine decide r.checks, and stores the result in r.answer.
func (r *requestState) decide(ctx context.Context, verb headgate.Verb) error {
	return r.snapshot.DecideAt(ctx, r.now, verb, r.checks, &r.answer)
}
