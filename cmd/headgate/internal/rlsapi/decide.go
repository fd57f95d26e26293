package rlsapi

import (
	"context"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// decide charges what is to be charged, and leaves in every item whether it is over. It reports whether the request is.
func (h *Handler) decide(ctx context.Context, c *call) (over bool, err error) {
	if err := h.refund(ctx, c); err != nil {
		return false, err
	}
	alone := h.opts.Charge == Each || h.opts.Shadow
	if alone {
		err = h.each(ctx, c, counted, headgate.Take)
	} else {
		err = h.together(ctx, c)
	}
	if err != nil {
		return false, err
	}
	over = c.over()
	c.spared = over && !alone
	verb := headgate.Take
	if c.spared {
		verb = headgate.Peek
	}
	return over, h.each(ctx, c, watched, verb)
}

// over reports whether the request is over its limits: one that counts is, or all of those that deny only together are.
func (c *call) over() bool {
	quotas, passed := false, c.freeQuota
	for i := range c.items {
		it := &c.items[i]
		switch {
		case it.part != counted:
		case !it.quota && it.over:
			return true
		case it.quota:
			quotas, passed = true, passed || !it.over
		}
	}
	return quotas && !passed
}

// together charges all counted items or none. Of those that deny only together, those that are over are left out, one attempt after
// the other: each is one operation of the store, which alone decides. The others come first, and what is left is given in the order of
// the request, so that no more are left out than must be.
func (h *Handler) together(ctx context.Context, c *call) error {
	verb := headgate.Take
	for i := range c.items {
		if it := &c.items[i]; it.part == counted && c.blocks(it) {
			it.over = true
		}
	}
	for {
		if c.over() {
			verb = headgate.Peek
		}
		allowed, err := c.ask(ctx, verb, c.countedAndNotOver)
		if err != nil || allowed || !c.unsure && (verb == headgate.Peek || c.over()) {
			return err
		}
	}
}

func (c *call) countedAndNotOver(it *item) bool { return it.part == counted && !it.over }

// blocks reports whether an item is over because its rule allows nothing.
func (c *call) blocks(it *item) bool {
	return it.blocked && it.cost > 0 && c.enforced()
}

func (c *call) enforced() bool {
	e := c.snapshot.Enforcement()
	return e != engine.Off && e != engine.Shadow
}

// ask decides about some items at once, and marks those that are over. It reports whether all are allowed.
func (c *call) ask(ctx context.Context, verb headgate.Verb, which func(*item) bool) (bool, error) {
	c.order, c.checks, c.unsure = c.order[:0], c.checks[:0], false
	c.choose(which, false)
	c.choose(which, true)
	if len(c.checks) == 0 {
		return true, nil
	}
	if err := c.snapshot.DecideAt(ctx, c.now, verb, c.checks, &c.answer); err != nil {
		return false, err
	}
	from, allowed := 0, true
	for _, it := range c.order {
		from += copy(it.decisions, c.answer.Decisions[from:])
		it.spent, it.ahead = it.decisions[0].Limit-it.decisions[0].Remaining, 0
		if it.denied = it.anyDenied(); it.denied {
			allowed = false
			c.deny(it)
		}
	}
	if verb == headgate.Take && allowed && c.enforced() {
		c.unstack()
	}
	for _, it := range c.order {
		c.settle(it)
	}
	return allowed, nil
}

// choose adds to what is asked: first those that deny alone, so that none of the others takes what they need.
func (c *call) choose(which func(*item) bool, quota bool) {
	for i := range c.items {
		if it := &c.items[i]; it.quota == quota && !it.blocked && which(it) {
			c.order = append(c.order, it)
			for j := range it.limits {
				c.checks = append(c.checks, engine.Check{Own: it.limits[j].Own, Key: it.key, Cost: it.cost})
			}
		}
	}
}

func (it *item) anyDenied() bool {
	for i := range it.decisions {
		if !it.decisions[i].Allowed {
			return true
		}
	}
	return false
}

// deny marks an item that was denied. The store answers each charge as if it came behind all before it, denied ones too: of those that
// are left out if they are over it is then not sure that they are.
func (c *call) deny(it *item) {
	for j := range it.decisions {
		if it.decisions[j].Allowed {
			continue
		}
		ahead, denied := c.ahead(it, &it.limits[j])
		if !it.quota || !denied {
			it.over, it.ahead = true, ahead
			return
		}
	}
	c.unsure = true
}

// ahead is what all items before one were asked to spend of the state of one of its limits, and whether one of them was denied.
func (c *call) ahead(it *item, l *envoyconfig.Limit) (cost int64, denied bool) {
	for _, before := range c.order {
		if before == it {
			break
		}
		if before.key == it.key && slices.ContainsFunc(before.limits, l.SharesState) {
			cost, denied = cost+before.cost, denied || before.denied
		}
	}
	return cost, denied
}

// unstack gives each of several charges of one fixed window what was left just after it, in the order of the request: the store says
// what is left after all.
func (c *call) unstack() {
	if len(c.order) == 1 {
		return
	}
	for i, a := range c.order {
		if !a.windowed() {
			continue
		}
		spent, later := a.spent, int64(0)
		for j, b := range c.order {
			if i == j || !b.windowed() || a.key != b.key || !a.limits[0].SharesState(b.limits[0]) {
				continue
			}
			if spent = max(spent, b.spent); b.place > a.place {
				later += b.cost
			}
		}
		limit := a.decisions[0].Limit
		a.decisions[0].Remaining = min(limit, max(0, limit-spent+later)) // all of it is left where nothing was charged, as the store is away
	}
}

// windowed reports whether an item counts in one fixed window alone.
func (it *item) windowed() bool { return len(it.limits) == 1 && it.limits[0].Windows }

// each decides about the items of one part, each by itself: at once if all are allowed, as they mostly are.
func (h *Handler) each(ctx context.Context, c *call, of part, verb headgate.Verb) error {
	n := 0
	for i := range c.items {
		it := &c.items[i]
		if it.part != of {
			continue
		}
		it.over = c.blocks(it)
		if !it.blocked {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	ofPart := func(it *item) bool { return it.part == of }
	if allowed, err := c.ask(ctx, verb, ofPart); err != nil || allowed {
		return err
	}
	for i := range c.items {
		it := &c.items[i]
		if it.part != of || it.blocked {
			continue
		}
		if n > 1 { // one alone was asked for by itself already
			it.over = false
			if _, err := c.ask(ctx, verb, func(other *item) bool { return other == it }); err != nil {
				return err
			}
		}
		if err := h.useUp(ctx, c, it); err != nil {
			return err
		}
	}
	return nil
}

// useUp takes what a denied charge of a fixed window left, if each descriptor is charged by itself: envoyproxy/ratelimit counts hits
// that it denies, so that nothing more is admitted in their window, and hits of 0 are over.
func (h *Handler) useUp(ctx context.Context, c *call, it *item) error {
	if h.opts.Charge != Each || !it.over || !it.windowed() {
		return nil
	}
	// Who is denied here came behind others that spent meanwhile: less is left.
	for left := it.decisions[0].Limit - it.spent; left > 0; left = c.answer.Decisions[0].Remaining {
		c.checks = append(c.checks[:0], engine.Check{Own: it.limits[0].Own, Key: it.key, Cost: left})
		err := c.snapshot.DecideAt(ctx, c.now, headgate.Take, c.checks, &c.answer)
		if err != nil || c.answer.Decisions[0].Allowed {
			return err
		}
	}
	return nil
}

// refund gives back what negative hits say.
func (h *Handler) refund(ctx context.Context, c *call) error {
	_, err := c.ask(ctx, headgate.Refund, func(it *item) bool { return it.part == refunded })
	return err
}
