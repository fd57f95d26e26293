package engine

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/memo"
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
func (s *ActiveConfig) inlineRule(k inlineKey) (*Rule, error) {
	if r, ok := s.inline.Get(k); ok {
		return r, nil
	}
	r, err := s.bindInline(k)
	if err != nil || len(k.limit)+len(k.algorithm) > longestKept {
		return r, err
	}
	k.limit, k.algorithm = strings.Clone(k.limit), strings.Clone(k.algorithm)
	return s.inline.Put(k, r), nil
}

func (s *ActiveConfig) bindInline(k inlineKey) (*Rule, error) {
	limit, err := headgate.ParseLimit(k.limit)
	if err != nil {
		return nil, err
	}
	r, err := bind(s.store, headgate.Rule{
		Scope:        "inline:" + strconv.Itoa(k.ordinal) + ":" + limit.Period.String(),
		Name:         strings.Clone(k.limit),
		Limit:        limit,
		Algorithm:    headgate.Algorithm(k.algorithm),
		OnStoreError: s.onError,
	})
	if err != nil {
		return nil, err
	}
	r.inline, r.ordinal = true, k.ordinal
	return r, nil
}

// ordinalOf is the ordinal of first, a rule of ordinal 0 on key, behind the rules that the request holds already.
func (c *charges) ordinalOf(first *Rule, key string) int {
	next := 0
	for i, r := range c.rules {
		if !r.inline || r.Algorithm != first.Algorithm || r.Limit.Period != first.Limit.Period || c.Ops[i].Key != key {
			continue
		}
		if r.Limit.Rate == first.Limit.Rate && r.Limit.Capacity() == first.Limit.Capacity() {
			return r.ordinal
		}
		next = max(next, r.ordinal+1)
	}
	return next
}

// Own is a limit that a check brings as a value, for a door whose protocol has one or whose configuration does: nothing is read from
// a text. It must not change while it is in use.
type InlineLimit struct {
	// Scope, the algorithm and the key say whose state it is, whatever the limit: a door's own name, and what else is to tell states
	// apart. Checks of different scopes share nothing, and none shares anything with policies or with limits that came as text. It is
	// kept, so there should be few of them and no stranger should choose them.
	Scope string
	// Limit is the limit.
	Limit headgate.Limit
	// Algorithm is the arithmetic; the zero value means [headgate.TokenBucket].
	Algorithm headgate.Algorithm
	// OnStoreError is what holds while the store cannot decide; the zero value means what holds for all checks without a policy.
	OnStoreError headgate.OnStoreError
	// Name is what DeniedBy calls it; empty means the text of the limit.
	Name string
}

// ownRule is the rule for a limit that came as a value. One that is known allocates nothing.
func (s *ActiveConfig) ownRule(own *InlineLimit) (*Rule, error) {
	if r, ok := s.own.Get(*own); ok {
		return r, nil
	}
	rule := headgate.Rule{
		Scope:        "own:" + own.Scope,
		Name:         own.Name,
		Limit:        own.Limit,
		Algorithm:    own.Algorithm,
		OnStoreError: own.OnStoreError,
	}
	if rule.Name == "" {
		rule.Name = own.Limit.String()
	}
	if rule.OnStoreError == "" {
		rule.OnStoreError = s.onError
	}
	r, err := bind(s.store, rule)
	if err != nil {
		return nil, err
	}
	return s.own.Put(*own, r), nil
}

// Ready returns why a limit that checks may bring could not be decided under, or nil. An interface
// that reads limits from its configuration calls it before the first request. It does no I/O.
func (s *ActiveConfig) Ready(own *InlineLimit) error {
	_, err := s.ownRule(own)
	return err
}

// recentRule is the rule of the limit that an answer was last asked with as a value.
type recentRule struct {
	own   InlineLimit
	rule  *Rule
	among *memo.Map[InlineLimit, *Rule] // the snapshot's that it was taken from; snapshots that share it have the same rules
}

// ownRule is the snapshot's. The limit of the last time, which it mostly is, is not looked up: that would be a fifth of a decision.
func (a *Answer) ownRule(s *ActiveConfig, own *InlineLimit) (*Rule, error) {
	if a.recent.among == s.own && a.recent.own == *own {
		return a.recent.rule, nil
	}
	r, err := s.ownRule(own)
	if err == nil {
		a.recent = recentRule{*own, r, s.own}
	}
	return r, err
}
