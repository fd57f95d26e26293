package rlsapi

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/service/engine"
)

// decide charges what is to be charged, and leaves in every item whether it is over. It reports whether the request is.
func (h *Handler) decide(ctx context.Context, c *call) (over bool, err error) {
	if err := h.refund(ctx, c); err != nil {
		return false, err
	}
	if h.opts.Charge == Each || h.opts.Shadow {
		err = h.each(ctx, c, counted, headgate.Take)
	} else {
		err = h.together(ctx, c)
	}
	if err != nil {
		return false, err
	}
	over = c.over()
	verb := headgate.Take
	if over && h.opts.Charge != Each && !h.opts.Shadow {
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
// the other: each is one operation of the store, which alone decides.
func (h *Handler) together(ctx context.Context, c *call) error {
	verb := headgate.Take
	for i := range c.items {
		if it := &c.items[i]; it.part == counted && c.blocks(it) {
			it.over = true
		}
	}
	if c.over() {
		verb = headgate.Peek
	}
	for {
		allowed, err := c.ask(ctx, verb, c.countedAndNotOver)
		if err != nil || allowed || c.over() || verb == headgate.Peek {
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
	c.checks = c.checks[:0]
	for i := range c.items {
		if it := &c.items[i]; !it.blocked && which(it) {
			c.add(it)
		}
	}
	if len(c.checks) == 0 {
		return true, nil
	}
	if err := c.snapshot.DecideAt(ctx, c.now, verb, c.checks, &c.answer); err != nil {
		return false, err
	}
	from, allowed := 0, true
	for i := range c.items {
		it := &c.items[i]
		if it.blocked || !which(it) {
			continue
		}
		from += copy(it.decisions, c.answer.Decisions[from:])
		for j := range it.decisions {
			if !it.decisions[j].Allowed {
				it.over, allowed = true, false
			}
		}
	}
	if verb == headgate.Take && allowed {
		c.unstack(which)
	}
	return allowed, nil
}

func (c *call) add(it *item) {
	for i := range it.limits {
		c.checks = append(c.checks, engine.Check{Own: it.limits[i].Own, Key: it.key, Cost: it.cost})
	}
}

// unstack gives each of several charges of one fixed window what was left just after it: the store says what is left after all.
func (c *call) unstack(which func(*item) bool) {
	for i := range c.items {
		a := &c.items[i]
		if a.blocked || !which(a) || len(a.limits) != 1 || !a.limits[0].Windows {
			continue
		}
		for j := i + 1; j < len(c.items); j++ {
			b := &c.items[j]
			if !b.blocked && which(b) && len(b.limits) == 1 && b.key == a.key && *b.limits[0].Own == *a.limits[0].Own {
				a.decisions[0].Remaining += b.cost
			}
		}
	}
}

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
	if allowed, err := c.ask(ctx, verb, ofPart); err != nil || allowed || verb == headgate.Peek {
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
// that it denies, so that nothing more is admitted in their window.
func (h *Handler) useUp(ctx context.Context, c *call, it *item) error {
	if h.opts.Charge != Each || !it.over || len(it.limits) != 1 || !it.limits[0].Windows || it.decisions[0].Remaining == 0 {
		return nil
	}
	check := engine.Check{Own: it.limits[0].Own, Key: it.key, Cost: it.decisions[0].Remaining}
	c.checks = append(c.checks[:0], check)
	return c.snapshot.DecideAt(ctx, c.now, headgate.Take, c.checks, &c.answer)
}

// refund gives back what negative hits say.
func (h *Handler) refund(ctx context.Context, c *call) error {
	_, err := c.ask(ctx, headgate.Refund, func(it *item) bool { return it.part == refunded })
	return err
}
