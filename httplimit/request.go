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

// requestState is one request and its decisions. States are pooled: a request allocates
// only the text that outlives it.
type requestState struct {
	admission.Request
	middleware *middleware
	req        *http.Request
	client     client
	keys       []byte // the texts of all keys, concatenated
	charges    []chargeState
	combined   headgate.Decision
	mask       uint32          // bit i is set if charge i applies
	adjusts    bool            // at least one charge has an AdjustCost function
	text       strings.Builder // keys, then the values of header fields: one allocation
}

// chargeState is one charge of a request.
type chargeState struct {
	charge *charge
	keyEnd int // the end of its key in requestState.keys
	cost   int64
}

var requestStates = sync.Pool{New: func() any { return new(requestState) }}

// roomForFields is the room, in bytes, that is enough for the header fields of most
// responses.
const roomForFields = 128

// maxKeyRoom is the largest key buffer, in bytes, that a pooled state keeps.
const maxKeyRoom = 16 << 10

func newRequestState(m *middleware, r *http.Request) *requestState {
	s := requestStates.Get().(*requestState)
	s.Core, s.middleware, s.req, s.client = &m.core, m, r, client{resolver: m.resolver}
	return s
}

// release returns the state to the pool. Only its strings may be used afterwards.
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

// collect finds the charges that apply, with key and cost, and reports whether there is
// one.
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
	}
	return len(s.charges) > 0
}

// decide charges the request.
func (s *requestState) decide(ctx context.Context) (err error) {
	if err = s.addCharges(); err != nil {
		return err
	}
	if s.adjusts {
		s.MarkTaken(headgate.StoreClock)
	}
	s.combined, err = s.Decide(ctx)
	return err
}

// addCharges copies the keys to text, which outlives the state, and adds every charge
// to the request.
func (s *requestState) addCharges() error {
	s.text.Grow(len(s.keys) + roomForFields)
	s.text.Write(s.keys)
	keys, begin := s.text.String(), 0
	for i := range s.charges {
		c := &s.charges[i]
		if c.cost < 0 {
			return costError(c.cost)
		}
		s.Charge(c.charge.Charge, keys[begin:c.keyEnd], c.cost)
		begin = c.keyEnd
	}
	return nil
}

// writeFields writes the header fields of the decision made at now.
func (s *requestState) writeFields(h http.Header, now time.Time) {
	s.middleware.writer.Write(h, s.middleware.sets.Of(s.mask), s.Decisions, now, &s.text)
}

// denial returns the denial of the request.
func (s *requestState) denial() *Denial {
	d, i := &Denial{Decision: s.combined}, 0
	for _, p := range s.Parts() {
		for _, l := range p.Charge.Limits {
			if !s.Decisions[i].Allowed && !slices.Contains(d.Policies, l.Name) {
				d.Policies = append(d.Policies, l.Name)
			}
			i++
		}
	}
	return d
}

// serveAndAdjust runs the handler and adjusts the cost, even if the handler panics; the
// panic continues.
func (s *requestState) serveAndAdjust(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, finished := &recorder.Recorder{ResponseWriter: w}, false
	defer func() { s.adjust(r, responseOf(rec, !finished)) }()
	next.ServeHTTP(rec, r)
	finished = true
}

// adjust changes each charge to its final cost. It sets resp.Request and resp.Charged.
func (s *requestState) adjust(r *http.Request, resp Response) {
	resp.Request = r
	parts := s.Parts()
	for i := range parts {
		if adjust := s.charges[i].charge.adjust; adjust != nil {
			resp.Charged = parts[i].Cost
			s.Settle(r.Context(), &parts[i], max(adjust(resp), 0))
		}
	}
}

// responseOf returns how a request ended, without Request and Charged.
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
