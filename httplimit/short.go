package httplimit

import (
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/keytext"
)

// The short way is that of most programs: one limit, which is not a queue, with a simple key, nothing to settle and nobody who observes.
// It is gate.serve with one of everything, and that on the stack.

// shortWay is the only charge, if it fits the short way.
func (g *gate) shortWay() *charge {
	c := &g.charges[0]
	if len(g.charges) > 1 || len(c.limits) > 1 || !c.key.simple() || c.leaky || c.settle != nil || g.opts.Observer != nil {
		return nil
	}
	return c
}

// roomForKey is how many bytes most keys take.
const roomForKey = 64

func (g *gate) serveShort(w http.ResponseWriter, r *http.Request, next http.Handler) {
	c := g.only
	if c.when != nil && !c.when(r) {
		next.ServeHTTP(w, r)
		return
	}
	cost := int64(1)
	if c.cost != nil {
		cost = c.cost(r)
	}
	if cost < 0 {
		g.undecided(w, r, errCost(cost))
		return
	}
	var room [roomForKey]byte
	a := asker{req: r, resolver: g.resolver}
	key, _ := a.appendSimple(room[:0], c.key)
	key = keytext.Bounded(key, 0)
	var text strings.Builder
	text.Grow(len(key) + roomForFields)
	text.Write(key)
	var decisions [1]headgate.Decision
	var err error
	decisions[0], err = c.limits[0].bound.Apply(r.Context(), headgate.StoreClock, text.String(), headgate.Take, cost)
	if err != nil {
		g.undecided(w, r, err)
		return
	}
	var now time.Time
	if g.needsTime {
		now = time.Now()
	}
	g.writer.Write(w.Header(), g.sets.all, decisions[:], now, &text)
	if !decisions[0].Allowed {
		g.opts.Denied(w, r, &Denial{Decision: decisions[0], Policies: []string{c.limits[0].fields.Name}})
		return
	}
	next.ServeHTTP(w, r)
}
