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

// The fast path serves the most common configuration: one limit without a queue, a key
// of one part, no AdjustCost and no observer. Its result is the same as that of
// middleware.serve, but all state is on the stack.

// fastPathCharge returns the middleware's only charge if the fast path can serve the
// configuration, otherwise nil.
func (m *middleware) fastPathCharge() *charge {
	c := &m.charges[0]
	if len(m.charges) > 1 || len(c.Limits) > 1 || !c.key.Single() || c.Queues || c.Slots || c.limits != nil || c.adjust != nil || m.core.Observer != nil {
		return nil
	}
	return c
}

// fieldRoomOf returns the number of bytes to reserve for the header fields of a
// response, or 0 if some responses have no fields. A buffer that is too large would
// cost time in each request.
func (m *middleware) fieldRoomOf() int {
	o := httpfields.Options{}
	if m.opts.Fields != nil {
		o = *m.opts.Fields
	}
	switch {
	case slices.Contains(o.Dialects, httpfields.Off) || o.When != "" && o.When != httpfields.Always:
		return 0
	case o.Dialects == nil || len(o.Dialects) == 1 && o.Dialects[0] == httpfields.IETF:
		return itemRoom(&m.charges[0].Fields()[0])
	default:
		return roomForFields
	}
}

// roomForRetry is the number of bytes to reserve for Retry-After. It is enough for most
// values.
const roomForRetry = 8

// responseRoom returns the number of bytes to reserve for the header fields of a
// response.
func (m *middleware) responseRoom(allowed bool) int {
	if allowed {
		return m.fieldRoom
	}
	return m.fieldRoom + roomForRetry
}

// itemRoom returns the maximum number of bytes of the limit's item in RateLimit, such
// as "default";r=20;t=2.
func itemRoom(f *httpfields.Limit) int {
	if f.Limit.IsUnlimited() || f.Limit.IsBlocked() {
		return 0 // such a limit has no fields
	}
	seconds := int64(f.Limit.Period/time.Second) + 1
	if f.Limit.Period == 0 { // a window of the calendar, at most a year
		seconds = int64(headgate.MaxPeriod/time.Second) + 1
	}
	// longest is an upper bound on the seconds until all units are available again.
	longest := max(seconds, f.Capacity/f.Limit.Rate*seconds+seconds)
	return len(`"";r=;t=`) + len(f.Name) + digits(f.Capacity) + digits(longest)
}

// digits returns the number of decimal digits of n.
func digits(n int64) int { return len(strconv.FormatInt(n, 10)) }

// roomForKey is the maximum length in bytes of an address as text.
const roomForKey = 64

// fastKey returns the text of the request's key. Where possible, this is a part of a
// string in the request, such as the beginning of the peer's address. Otherwise fastKey
// writes the key to text, and reserves room in text for the header fields.
func (m *middleware) fastKey(r *http.Request, text *strings.Builder) string {
	k := m.single.key
	v6Bits, isAddress := k.Block()
	if !isAddress {
		return k.Text(keyRequest{req: r})
	}
	var room [roomForKey]byte
	key := clientaddr.AppendKey(room[:0], clientaddr.Group(m.resolver.Addr(r), v6Bits))
	if peer := r.RemoteAddr; len(key) <= len(peer) && peer[:len(key)] == string(key) {
		return peer[:len(key)]
	}
	text.Grow(len(key) + m.fieldRoom)
	text.Write(key)
	return text.String()
}

// serveFast handles a request on the fast path.
func (m *middleware) serveFast(w http.ResponseWriter, r *http.Request, next http.Handler) {
	c := m.single
	if c.when != nil && !c.when(r) {
		next.ServeHTTP(w, r)
		return
	}
	cost := int64(1)
	if c.cost != nil {
		cost = c.cost(r)
	}
	if cost < 0 {
		m.writeError(w, r, costError(cost))
		return
	}
	var text strings.Builder
	key := m.fastKey(r, &text)
	var decisions [1]headgate.Decision
	var err error
	decisions[0], err = c.Limits[0].Bound.Apply(r.Context(), headgate.StoreClock, key, headgate.Take, cost)
	if err != nil {
		m.writeError(w, r, err)
		return
	}
	var now time.Time
	if m.needsTime {
		now = time.Now()
	}
	text.Grow(m.responseRoom(decisions[0].Allowed))
	m.writer.Write(w.Header(), m.sets.Of(1), decisions[:], now, &text)
	if !decisions[0].Allowed {
		m.opts.DeniedHandler(w, r, &Denial{Decision: decisions[0], Policies: []string{c.Limits[0].Name}})
		return
	}
	next.ServeHTTP(w, r)
}
