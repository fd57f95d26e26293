// Package answerfields writes the rate limit header fields for an answer of the engine.
// The APIs that use HTTP share it.
package answerfields

import (
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/memo"
)

const (
	// Maximum number of rules of a request whose fields are cached; with more rules,
	// the fields are serialized each time.
	maxCachedRules = 8
	maxCachedSets  = 4096 // maximum number of cached sets
	usualBytes     = 128  // usual size, in bytes, of the fields that differ between answers
)

// ruleSet is the list of the limits of a request, in the order of the request.
type ruleSet [maxCachedRules]*engine.Rule

// Writer writes the header fields. It is created with [New] and may be used
// concurrently.
type Writer struct {
	fields *httpfields.Writer
	sets   *memo.Map[ruleSet, *httpfields.Set]
}

// New returns a writer of the fields RateLimit-Policy and RateLimit.
func New() *Writer {
	fields, err := httpfields.New(nil)
	if err != nil {
		panic("answerfields: " + err.Error()) // never happens, because the defaults are valid
	}
	return &Writer{fields: fields, sets: memo.New[ruleSet, *httpfields.Set](maxCachedSets)}
}

// Write adds RateLimit-Policy for all limits of the answer, RateLimit for the tightest
// limit, and Retry-After for a denial that ends at some time. It adds nothing for an
// answer without limits, and nothing for an answer that is not enforced: clients slow
// down because of these fields, but a limit in shadow mode must not affect them. Write
// allocates once or twice.
func (w *Writer) Write(header http.Header, a *engine.Answer) {
	if len(a.Rules) == 0 || a.Unenforced {
		return
	}
	var text strings.Builder
	text.Grow(usualBytes)
	w.fields.Write(header, w.setOf(a.Rules), a.Decisions, time.Time{}, &text)
}

// setOf returns the part of the fields that is the same in all answers for these rules.
// It uses the cache if there are at most maxCachedRules rules.
func (w *Writer) setOf(rules []*engine.Rule) *httpfields.Set {
	if len(rules) > maxCachedRules {
		return w.newSet(rules)
	}
	var k ruleSet
	copy(k[:], rules)
	if s, ok := w.sets.Get(k); ok {
		return s
	}
	return w.sets.Put(k, w.newSet(rules))
}

func (w *Writer) newSet(rules []*engine.Rule) *httpfields.Set {
	limits := make([]httpfields.Limit, len(rules))
	for i, r := range rules {
		limits[i] = httpfields.Limit{Limit: r.Limit, Algorithm: r.Algorithm, Capacity: r.Capacity()}
		if r.Policy != "" { // the name of an inline limit is its text, which the fields already contain
			limits[i].Name = r.Name
		}
	}
	return w.fields.Set(limits...)
}
