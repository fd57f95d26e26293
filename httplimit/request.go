package httplimit

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/recorder"
)

// requestState is one request and what was decided on it. States are pooled, so that a request allocates nothing but the text
// that outlives it.
type requestState struct {
	admission.Request
	gate    *gate
	req     *http.Request
	client  client
	keys    []byte // the text of all keys, one behind the other
	taken   []chargeState
	all     headgate.Decision // of all together
	mask    uint32            // bit i: charge i holds
	settles bool              // one of them has a Settle function
	text    strings.Builder   // keys, then the values of header fields: one allocation
}

// chargeState is one charge of a request.
type chargeState struct {
	charge *charge
	keyEnd int // in keys
	cost   int64
}

var requestStates = sync.Pool{New: func() any { return new(requestState) }}

// roomForFields is how many bytes the values of header fields take, mostly.
const roomForFields = 128

// maxKeyRoom bounds the room for keys that a pooled state keeps, in bytes.
const maxKeyRoom = 16 << 10

func newRequestState(g *gate, r *http.Request) *requestState {
	v := requestStates.Get().(*requestState)
	v.Core, v.gate, v.req, v.client = &g.core, g, r, client{resolver: g.resolver}
	return v
}

// release returns the state to the pool. Only its strings may be used afterwards.
func (v *requestState) release() {
	clear(v.taken)
	v.Request.Reset()
	keys := v.keys[:0]
	if cap(keys) > maxKeyRoom {
		keys = nil
	}
	*v = requestState{Request: v.Request, keys: keys, taken: v.taken[:0]}
	requestStates.Put(v)
}

// collect finds the charges that hold, with key and cost, and reports whether there are any.
func (v *requestState) collect() bool {
	for i := range v.gate.charges {
		c := &v.gate.charges[i]
		if c.when != nil && !c.when(v.req) {
			continue
		}
		cost := int64(1)
		if c.cost != nil {
			cost = c.cost(v.req)
		}
		v.keys = c.key.Append(v.keys, keyRequest{v.req, &v.client})
		v.taken = append(v.taken, chargeState{c, len(v.keys), cost})
		v.mask |= 1 << i
		v.settles = v.settles || c.settle != nil
	}
	return len(v.taken) > 0
}

// decide charges the request.
func (v *requestState) decide(ctx context.Context) (err error) {
	if err = v.charge(); err != nil {
		return err
	}
	if v.settles {
		v.MarkTaken(headgate.StoreClock)
	}
	v.all, err = v.Decide(ctx)
	return err
}

// charge writes the keys to where they stay, and adds every charge to the request.
func (v *requestState) charge() error {
	v.text.Grow(len(v.keys) + roomForFields)
	v.text.Write(v.keys)
	keys, begin := v.text.String(), 0
	for i := range v.taken {
		t := &v.taken[i]
		if t.cost < 0 {
			return errCost(t.cost)
		}
		v.Charge(t.charge.Charge, keys[begin:t.keyEnd], t.cost)
		begin = t.keyEnd
	}
	return nil
}

// writeFields writes the header fields of the decision made at now.
func (v *requestState) writeFields(h http.Header, now time.Time) {
	v.gate.writer.Write(h, v.gate.sets.Of(v.mask), v.Decisions, now, &v.text)
}

// denial returns the denial of the request.
func (v *requestState) denial() *Denial {
	d, i := &Denial{Decision: v.all}, 0
	for _, p := range v.Parts() {
		for _, l := range p.Charge.Limits {
			if !v.Decisions[i].Allowed && !slices.Contains(d.Policies, l.Name) {
				d.Policies = append(d.Policies, l.Name)
			}
			i++
		}
	}
	return d
}

// serveAndSettle runs the handler and settles, also if it panics: the panic goes on.
func (v *requestState) serveAndSettle(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, finished := &recorder.Recorder{ResponseWriter: w}, false
	defer func() { v.settle(r, outcomeOf(rec, !finished)) }()
	next.ServeHTTP(rec, r)
	finished = true
}

// settle changes each charge to its final cost. o lacks the request and what was charged.
func (v *requestState) settle(r *http.Request, o Response) {
	o.Request = r
	parts := v.Parts()
	for i := range parts {
		if settle := v.taken[i].charge.settle; settle != nil {
			o.Charged = parts[i].Cost
			v.Settle(r.Context(), &parts[i], max(settle(o), 0))
		}
	}
}

// outcomeOf returns how a request ended, without the request and what was charged.
func outcomeOf(rec *recorder.Recorder, panicked bool) Response {
	o := Response{Status: rec.Status(), Bytes: rec.Bytes, Panicked: panicked}
	switch {
	case o.Status != 0:
	case panicked:
		o.Status = http.StatusInternalServerError
	default:
		o.Status = http.StatusOK
	}
	return o
}
