package rlsapi

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// Where each descriptor is charged by itself, envoyproxy/ratelimit counts hits that it denies, too, and says from then on, to hits of 0 as
// well, that the limit is over. A store counts no further than a limit. So it is given one hit more than the limit has: a window that has
// counted that one is over.

// goesBeyond reports whether limits are that of one fixed window, and of not as many hits as can be counted.
func goesBeyond(limits []envoyconfig.Limit) bool {
	return len(limits) == 1 && limits[0].Windows && limits[0].Own != nil && limits[0].Own.Limit.Rate < headgate.MaxUnits
}

// beyond is a limit with one hit more, if it goes so far; nil if not.
func beyond(limits []envoyconfig.Limit) []envoyconfig.Limit {
	if !goesBeyond(limits) {
		return nil
	}
	l, own := limits[0], *limits[0].Own
	own.Limit.Rate++
	l.Own = &own
	return []envoyconfig.Limit{l}
}

// settle says of what a store decided about one hit more what it means for the limit.
func (c *call) settle(it *item) {
	d := &it.decisions[0]
	switch {
	case !it.goneBeyond():
	case d.Allowed && d.Remaining == 0 && c.enforced():
		it.over, d.Allowed, d.Remaining = true, false, max(0, it.cost-1) // as much was left before
	default:
		d.Remaining = max(0, d.Remaining-1)
	}
}

// goneBeyond reports whether the last answer is about one hit more than the limit has: not about a share of it, while the store is away.
func (it *item) goneBeyond() bool {
	return it.beyond && it.decisions[0].Limit == it.limits[0].Own.Limit.Rate
}

// capacity is the most that one of the limits admits at once.
func (it *item) capacity(limit int) int64 {
	if it.goneBeyond() {
		return it.decisions[limit].Limit - 1
	}
	return it.decisions[limit].Limit
}
