// Package answerfields writes the rate limit header fields of an engine's answer, for the
// APIs over HTTP.
package answerfields

import (
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/memo"
	"github.com/headgate/headgate/httpfields"
)

const (
	maxCachedRules = 8    // rules of a request whose fields are cached; longer ones are serialized each time
	maxCachedSets  = 4096 // sets of limits whose fields are cached
	usualBytes     = 128  // usual size of the fields that differ between answers
)

// ruleSet is the limits of a request, in its order.
type ruleSet [maxCachedRules]*engine.Rule

// Writer writes the fields. It is created with [New] and may be used concurrently.
type Writer struct {
	fields *httpfields.Writer
	sets   *memo.Map[ruleSet, *httpfields.Set]
}

// New returns a writer of RateLimit-Policy and RateLimit.
func New() *Writer {
	fields, err := httpfields.New(nil)
	if err != nil {
		panic("answerfields: " + err.Error()) // the defaults are valid
	}
	return &Writer{fields: fields, sets: memo.New[ruleSet, *httpfields.Set](maxCachedSets)}
}

// Write adds RateLimit-Policy for all limits of the answer, RateLimit for the tightest,
// and Retry-After for a denial that ends. An answer without limits adds nothing. Neither
// does an unenforced one: clients slow down for what the fields report, and a limit in
// shadow mode must not affect them. It allocates once or twice.
func (w *Writer) Write(header http.Header, a *engine.Answer) {
	if len(a.Rules) == 0 || a.Unenforced {
		return
	}
	var text strings.Builder
	text.Grow(usualBytes)
	w.fields.Write(header, w.setOf(a.Rules), a.Decisions, time.Time{}, &text)
}

// setOf returns the constant part of the fields of these rules, from the cache if
// possible.
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
		if r.Policy != "" { // an inline limit is named by its text, which the fields already contain
			limits[i].Name = r.Name
		}
	}
	return w.fields.Set(limits...)
}
