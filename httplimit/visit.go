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

// visit is one request and what was decided on it. Visits are pooled, so that a request allocates nothing but the text that
// outlives it.
type visit struct {
	admission.Request
	gate    *gate
	req     *http.Request
	client  client
	keys    []byte // the text of all keys, one behind the other
	taken   []take
	all     headgate.Decision // of all together
	mask    uint32            // bit i: charge i holds
	settles bool              // one of them wants to know the outcome
	text    strings.Builder   // keys, then the values of header fields: one allocation
}

// take is one charge of a visit.
type take struct {
	charge *charge
	keyEnd int // in keys
	cost   int64
}

var visits = sync.Pool{New: func() any { return new(visit) }}

// roomForFields is how many bytes the values of header fields take, mostly.
const roomForFields = 128

// mostKept bounds the bytes for keys that a visit keeps for the next one.
const mostKept = 16 << 10

func newVisit(g *gate, r *http.Request) *visit {
	v := visits.Get().(*visit)
	v.Core, v.gate, v.req, v.client = &g.core, g, r, client{resolver: g.resolver}
	return v
}

// release returns the visit to the pool. Nothing of it may be used afterwards but strings.
func (v *visit) release() {
	clear(v.taken)
	v.Request.Reset()
	keys := v.keys[:0]
	if cap(keys) > mostKept {
		keys = nil
	}
	*v = visit{Request: v.Request, keys: keys, taken: v.taken[:0]}
	visits.Put(v)
}

// collect finds the charges that hold, with key and cost, and reports whether there are any.
func (v *visit) collect() bool {
	for i := range v.gate.charges {
		c := &v.gate.charges[i]
		if c.when != nil && !c.when(v.req) {
			continue
		}
		cost := int64(1)
		if c.cost != nil {
			cost = c.cost(v.req)
		}
		v.keys = c.key.Append(v.keys, asker{v.req, &v.client})
		v.taken = append(v.taken, take{c, len(v.keys), cost})
		v.mask |= 1 << i
		v.settles = v.settles || c.settle != nil
	}
	return len(v.taken) > 0
}

// decide charges the request.
func (v *visit) decide(ctx context.Context) (err error) {
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
func (v *visit) charge() error {
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
func (v *visit) writeFields(h http.Header, now time.Time) {
	v.gate.writer.Write(h, v.gate.sets.Of(v.mask), v.Decisions, now, &v.text)
}

// denial is what a denied request is told.
func (v *visit) denial() *Denial {
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
func (v *visit) serveAndSettle(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, finished := &recorder.Recorder{ResponseWriter: w}, false
	defer func() { v.settle(r, outcomeOf(rec, !finished)) }()
	next.ServeHTTP(rec, r)
	finished = true
}

// settle has each charge's real cost taken. o lacks the request and what was charged.
func (v *visit) settle(r *http.Request, o Outcome) {
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
func outcomeOf(rec *recorder.Recorder, panicked bool) Outcome {
	o := Outcome{Status: rec.Status(), Bytes: rec.Bytes, Panicked: panicked}
	switch {
	case o.Status != 0:
	case panicked:
		o.Status = http.StatusInternalServerError
	default:
		o.Status = http.StatusOK
	}
	return o
}
