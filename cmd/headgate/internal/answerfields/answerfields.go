// Package answerfields writes the header fields of an engine's answer, for the doors that speak HTTP.
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
	mostRules = 8    // of a request whose fields are kept ready; those of others are serialised anew each time
	mostSets  = 4096 // sets of limits whose fields are kept ready
	mostBytes = 128  // of fields that differ from answer to answer, mostly
)

// ruleSet says which limits take part in a request, in its order.
type ruleSet [mostRules]*engine.Rule

// Writer writes the fields. It is made with [New] and may be used concurrently.
type Writer struct {
	fields *httpfields.Writer
	sets   *memo.Map[ruleSet, *httpfields.Set]
}

// New makes a writer of RateLimit-Policy and RateLimit.
func New() *Writer {
	fields, err := httpfields.New(nil)
	if err != nil {
		panic("answerfields: " + err.Error()) // the defaults contradict nothing
	}
	return &Writer{fields: fields, sets: memo.New[ruleSet, *httpfields.Set](mostSets)}
}

// Write adds RateLimit-Policy, for all limits of the answer, RateLimit for the tightest, and Retry-After for a denial that will end. An
// answer without limits adds nothing, nor does one of limits that could not have denied it: clients slow down for what the fields say, and
// nobody is to notice a limit that denies nobody. It allocates once or twice.
func (w *Writer) Write(header http.Header, a *engine.Answer) {
	if len(a.Rules) == 0 || a.Unenforced {
		return
	}
	var text strings.Builder
	text.Grow(mostBytes)
	w.fields.Write(header, w.setOf(a.Rules), a.Decisions, time.Time{}, &text)
}

// setOf is what the fields say of rules in every answer.
func (w *Writer) setOf(rules []*engine.Rule) *httpfields.Set {
	if len(rules) > mostRules {
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
		if r.Policy != "" { // the name of any other is its text, which says nothing that the fields do not
			limits[i].Name = r.Name
		}
	}
	return w.fields.Set(limits...)
}
