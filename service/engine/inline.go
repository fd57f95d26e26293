package engine

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// longestKept bounds the text of a rule that is kept ready, in bytes: with mostInline it bounds the memory that strangers'
// texts can take. Longer ones, blanks mostly, work and are read afresh each time.
const longestKept = 128

// inlineKey is what a check without a policy said. The ordinal tells different limits of one algorithm and period on one key
// of one request apart: 0 for the first, counted in the order of the request.
type inlineKey struct {
	limit, algorithm string
	ordinal          int
}

// inlineRule is the rule for a check that brought its own limit.
func (e *Engine) inlineRule(k inlineKey) (*Rule, error) {
	if r, ok := e.inline.Get(k); ok {
		return r, nil
	}
	r, err := e.bindInline(k)
	if err != nil || len(k.limit)+len(k.algorithm) > longestKept {
		return r, err
	}
	k.limit, k.algorithm = strings.Clone(k.limit), strings.Clone(k.algorithm)
	return e.inline.Put(k, r), nil
}

func (e *Engine) bindInline(k inlineKey) (*Rule, error) {
	limit, err := headgate.ParseLimit(k.limit)
	if err != nil {
		return nil, err
	}
	r, err := bind(e.store, headgate.Rule{
		Scope:        "inline:" + strconv.Itoa(k.ordinal) + ":" + limit.Period.String(),
		Name:         strings.Clone(k.limit),
		Limit:        limit,
		Algorithm:    headgate.Algorithm(k.algorithm),
		OnStoreError: e.onError,
	})
	if err != nil {
		return nil, err
	}
	r.ordinal = k.ordinal
	return r, nil
}

// ordinalOf is the ordinal of first, a rule of ordinal 0 on key, behind the rules that the request holds already.
func (a *Answer) ordinalOf(first *Rule, key string) int {
	next := 0
	for i, r := range a.Rules {
		if r.Policy != "" || r.Algorithm != first.Algorithm || r.Limit.Period != first.Limit.Period || a.ops[i].Key != key {
			continue
		}
		if r.Limit.Rate == first.Limit.Rate && r.Limit.Capacity() == first.Limit.Capacity() {
			return r.ordinal
		}
		next = max(next, r.ordinal+1)
	}
	return next
}
