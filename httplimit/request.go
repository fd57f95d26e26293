package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/recorder"
)

// requestState is the state of one request with its decisions. States are pooled: a
// request allocates only text that is used after the state was released.
type requestState struct {
	admission.Request
	middleware *middleware
	req        *http.Request
	client     client
	keys       []byte // concatenated texts of all keys
	charges    []chargeState
	combined   headgate.Decision
	mask       uint32          // set of charges that apply: bit i is set for charge i
	adjusts    bool            // true if at least one charge has an AdjustCost function
	varies     bool            // true if at least one charge has a Limits function
	text       strings.Builder // keys, followed by the values of header fields, in one allocation
}

// chargeState is the state of one charge of a request.
type chargeState struct {
	charge *charge
	keyEnd int // end of the charge's key in requestState.keys
	cost   int64
}

var requestStates = sync.Pool{New: func() any { return new(requestState) }}

// roomForFields is the number of bytes to reserve for header fields. It is enough for
// most responses.
const roomForFields = 128

// maxKeyRoom is the maximum size in bytes of a key buffer that stays in the pool.
const maxKeyRoom = 16 << 10

func newRequestState(m *middleware, r *http.Request) *requestState {
	s := requestStates.Get().(*requestState)
	s.Core, s.middleware, s.req, s.client = &m.core, m, r, client{resolver: m.resolver}
	return s
}

// release returns the state to the pool. Only strings from the state may be used
// afterwards.
func (s *requestState) release() {
	clear(s.charges)
	s.Request.Reset()
	keys := s.keys[:0]
	if cap(keys) > maxKeyRoom {
		keys = nil
	}
	*s = requestState{Request: s.Request, keys: keys, charges: s.charges[:0]}
	requestStates.Put(s)
}

// collect stores the charges that apply to the request, with their keys and costs. It
// returns false if no charge applies.
func (s *requestState) collect() bool {
	for i := range s.middleware.charges {
		c := &s.middleware.charges[i]
		if c.when != nil && !c.when(s.req) {
			continue
		}
		cost := int64(1)
		if c.cost != nil {
			cost = c.cost(s.req)
		}
		s.keys = c.key.Append(s.keys, keyRequest{s.req, &s.client})
		s.charges = append(s.charges, chargeState{c, len(s.keys), cost})
		s.mask |= 1 << i
		s.adjusts = s.adjusts || c.adjust != nil
		s.varies = s.varies || c.limits != nil
	}
	return len(s.charges) > 0
}

// decide charges the request and stores the combined decision.
func (s *requestState) decide(ctx context.Context) (err error) {
	if err = s.addCharges(); err != nil {
		return err
	}
	if s.adjusts || s.HasSlots() {
		s.combined, err = s.DecideAndHold(ctx, s.middleware.opts.HoldTTL)
	} else {
		s.combined, err = s.Decide(ctx)
	}
	if s.HasSlots() {
		s.Keep(s.middleware.keeper)
	}
	return err
}

// addCharges copies the keys to text, which may be used after release, and adds all
// charges to the request.
func (s *requestState) addCharges() error {
	s.text.Grow(len(s.keys) + roomForFields)
	s.text.Write(s.keys)
	keys, begin := s.text.String(), 0
	for i := range s.charges {
		c := &s.charges[i]
		if c.cost < 0 {
			return costError(c.cost)
		}
		bound, err := c.charge.of(s.req)
		if err != nil {
			return err
		}
		s.Charge(bound, keys[begin:c.keyEnd], c.cost)
		begin = c.keyEnd
	}
	return nil
}

// of returns the charge with the limits of a request.
func (c *charge) of(r *http.Request) (*admission.Charge, error) {
	if c.limits == nil {
		return c.Charge, nil
	}
	bound, err := c.variants.Of(c.limits(r))
	if err != nil {
		return nil, fmt.Errorf("httplimit: Limits of policy %q: %w", c.Policy, err)
	}
	return bound, nil
}

// writeFields writes the header fields for the decisions. The parameter now is the time
// of the decisions.
func (s *requestState) writeFields(h http.Header, now time.Time) {
	var set *httpfields.Set
	if s.varies {
		set = s.middleware.sets.OfParts(s.Parts())
	} else {
		set = s.middleware.sets.Of(s.mask)
	}
	s.middleware.writer.Write(h, set, s.Decisions, now, &s.text)
}

// denial returns the combined decision of the denied request and the names of the
// limits that denied.
func (s *requestState) denial() *Denial {
	d, i := &Denial{Decision: s.combined, slots: true}, 0
	for _, p := range s.Parts() {
		for _, l := range p.Charge.Limits {
			if !s.Decisions[i].Allowed {
				d.slots = d.slots && l.Rule.Algorithm.OnlyHolds()
				if !slices.Contains(d.Policies, l.Name) {
					d.Policies = append(d.Policies, l.Name)
				}
			}
			i++
		}
	}
	return d
}

// serveAndAdjust runs the handler and then adjusts the cost. If the handler panics, the
// cost is adjusted too, and the panic continues.
func (s *requestState) serveAndAdjust(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, finished := &recorder.Recorder{ResponseWriter: w}, false
	defer func() { s.adjust(r, responseOf(rec, !finished)) }()
	next.ServeHTTP(rec, r)
	finished = true
}

// adjust changes each charge to its final cost. It sets the fields Request and Charged
// of resp.
func (s *requestState) adjust(r *http.Request, resp Response) {
	resp.Request = r
	s.Adjust(r.Context(), func(i int, charged int64) int64 {
		adjust := s.charges[i].charge.adjust
		if adjust == nil {
			return admission.AsCharged
		}
		resp.Charged = charged
		return max(adjust(resp), 0)
	})
}

// responseOf returns how a request ended. The fields Request and Charged are not set.
func responseOf(rec *recorder.Recorder, panicked bool) Response {
	resp := Response{Status: rec.Status(), Bytes: rec.Bytes, Panicked: panicked}
	switch {
	case resp.Status != 0:
	case panicked:
		resp.Status = http.StatusInternalServerError
	default:
		resp.Status = http.StatusOK
	}
	return resp
}
