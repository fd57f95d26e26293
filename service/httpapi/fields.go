package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/service/engine"
)

// mostRules is the longest request whose header fields are kept ready. Others are serialised anew each time.
const mostRules = 8

// ruleSet says which limits take part in a request, in its order.
type ruleSet [mostRules]*engine.Rule

// newFields makes the writer of RateLimit-Policy and RateLimit.
func newFields() *httpfields.Writer {
	w, err := httpfields.New(nil)
	if err != nil {
		panic("httpapi: " + err.Error()) // the defaults contradict nothing
	}
	return w
}

// setOf is what the header fields say of rules in every answer.
func (h *Handler) setOf(rules []*engine.Rule) *httpfields.Set {
	if len(rules) > mostRules {
		return h.newSet(rules)
	}
	var k ruleSet
	copy(k[:], rules)
	if s, ok := h.sets.Get(k); ok {
		return s
	}
	return h.sets.Put(k, h.newSet(rules))
}

func (h *Handler) newSet(rules []*engine.Rule) *httpfields.Set {
	limits := make([]httpfields.Limit, len(rules))
	for i, r := range rules {
		limits[i] = httpfields.Limit{Limit: r.Limit, Algorithm: r.Algorithm, AtOnce: r.AtOnce()}
		if r.Policy != "" { // the name of any other is its text, which says nothing that the fields do not
			limits[i].Name = r.Name
		}
	}
	return h.fields.Set(limits...)
}

// setLimitFields writes RateLimit-Policy, for all limits of the answer, RateLimit for the tightest, and Retry-After for a
// denial that will end.
func (h *Handler) setLimitFields(header http.Header, a *engine.Answer) {
	var text strings.Builder
	text.Grow(mostFieldBytes)
	h.fields.Write(header, h.setOf(a.Rules), a.Decisions, time.Time{}, &text)
}
