package httplimit

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httpfields"
)

// The short way is that of most programs: one limit, which is not a queue, with a simple key, nothing to settle and nobody who
// observes. It is gate.serve with one of everything, and that on the stack.

// shortWay is the only charge, if it fits the short way.
func (g *gate) shortWay() *charge {
	c := &g.charges[0]
	if len(g.charges) > 1 || len(c.Limits) > 1 || !c.key.Single() || c.Queues || c.settle != nil || g.core.Observer != nil {
		return nil
	}
	return c
}

// fieldsRoom is how many bytes the fields of an answer under one limit take, if all answers have some. Less room costs less: what
// is taken is touched.
func (g *gate) fieldsRoom() int {
	o := httpfields.Options{}
	if g.opts.Fields != nil {
		o = *g.opts.Fields
	}
	switch {
	case slices.Contains(o.Dialects, httpfields.Off) || o.When != "" && o.When != httpfields.Always:
		return 0
	case o.Dialects == nil || len(o.Dialects) == 1 && o.Dialects[0] == httpfields.IETF:
		return itemRoom(&g.charges[0].Fields()[0])
	default:
		return roomForFields
	}
}

// roomForRetry is how many bytes Retry-After takes, mostly.
const roomForRetry = 8

// roomFor is how many bytes the fields of an answer take.
func (g *gate) roomFor(allowed bool) int {
	if allowed {
		return g.room
	}
	return g.room + roomForRetry
}

// itemRoom is how many bytes an item of RateLimit takes, as in "default";r=20;t=2. A denial says more, and takes more.
func itemRoom(f *httpfields.Limit) int {
	seconds := int64(f.Limit.Period/time.Second) + 1
	longest := max(seconds, f.Capacity/f.Limit.Rate*seconds+seconds) // until all is there again
	return len(`"";r=;t=`) + len(f.Name) + digits(f.Capacity) + digits(longest)
}

// digits is how many digits n has.
func digits(n int64) int { return len(strconv.FormatInt(n, 10)) }

// roomForKey is how many bytes an address takes at most.
const roomForKey = 64

// shortKey is the key as text: what the request has as it is; part of the peer's address, if that is how it begins; or else
// written to text, with room for fields behind it.
func (g *gate) shortKey(r *http.Request, text *strings.Builder) string {
	k := g.only.key
	v6Bits, isAddress := k.Block()
	if !isAddress {
		return k.Text(keyRequest{req: r})
	}
	var room [roomForKey]byte
	made := clientaddr.AppendKey(room[:0], clientaddr.Group(g.resolver.Addr(r), v6Bits))
	if peer := r.RemoteAddr; len(made) <= len(peer) && peer[:len(made)] == string(made) {
		return peer[:len(made)]
	}
	text.Grow(len(made) + g.room)
	text.Write(made)
	return text.String()
}

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
	var text strings.Builder
	key := g.shortKey(r, &text)
	var decisions [1]headgate.Decision
	var err error
	decisions[0], err = c.Limits[0].Bound.Apply(r.Context(), headgate.StoreClock, key, headgate.Take, cost)
	if err != nil {
		g.undecided(w, r, err)
		return
	}
	var now time.Time
	if g.needsTime {
		now = time.Now()
	}
	text.Grow(g.roomFor(decisions[0].Allowed))
	g.writer.Write(w.Header(), g.sets.Of(1), decisions[:], now, &text)
	if !decisions[0].Allowed {
		g.opts.DeniedHandler(w, r, &Denial{Decision: decisions[0], Policies: []string{c.Limits[0].Name}})
		return
	}
	next.ServeHTTP(w, r)
}
