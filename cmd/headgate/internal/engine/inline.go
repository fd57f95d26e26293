package engine

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/memo"
)

// maxCachedBytes is the maximum length of a limit and algorithm whose rule is cached, in
// bytes. With maxInlineRules it bounds the memory for texts of clients. Longer texts,
// mostly of spaces, are parsed by every request.
const maxCachedBytes = 128

// inlineKey is the limit of a check without a policy, as text. The ordinal distinguishes
// different limits of one algorithm and period on one key of one request: 0 for the
// first, in the order of the request.
type inlineKey struct {
	limit, algorithm string
	ordinal          int
}

// ruleOfText returns the rule of a check that brought its limit as text.
func (s *ActiveConfig) ruleOfText(k inlineKey) (*Rule, error) {
	if r, ok := s.inlineByText.Get(k); ok {
		return r, nil
	}
	r, err := s.bindText(k)
	if err != nil || len(k.limit)+len(k.algorithm) > maxCachedBytes {
		return r, err
	}
	k.limit, k.algorithm = strings.Clone(k.limit), strings.Clone(k.algorithm)
	return s.inlineByText.Put(k, r), nil
}

func (s *ActiveConfig) bindText(k inlineKey) (*Rule, error) {
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
	r.isText, r.ordinal = true, k.ordinal
	return r, nil
}

// ordinalOf returns the ordinal for a check on key, given its rule of ordinal 0 and the
// charges of the checks before it.
func (c *charges) ordinalOf(first *Rule, key string) int {
	next := 0
	for i, r := range c.rules {
		if !r.isText || r.Algorithm != first.Algorithm || r.Limit.Period != first.Limit.Period || c.Ops[i].Key != key {
			continue
		}
		if r.Limit.Rate == first.Limit.Rate && r.Limit.Capacity() == first.Limit.Capacity() {
			return r.ordinal
		}
		next = max(next, r.ordinal+1)
	}
	return next
}

// InlineLimit is a limit that a check brings as a value, for an API whose protocol or
// configuration contains limits. It must not change while it is in use.
type InlineLimit struct {
	// Scope, the algorithm and the key identify the state, whatever the limit is. Scope
	// is the API's name, and whatever else separates states. Checks of different scopes
	// share no state, nor do they share any with policies or with limits as text. Scopes
	// are retained, so there should be few, and clients must not choose them.
	Scope string
	// Limit is the limit.
	Limit headgate.Limit
	// Algorithm is the algorithm; the zero value means [headgate.TokenBucket].
	Algorithm headgate.Algorithm
	// OnStoreError is the failure mode; the zero value means [Options].OnStoreError.
	OnStoreError headgate.OnStoreError
	// Name is its name in DeniedBy; empty means the text of the limit.
	Name string
}

// ruleOfValue returns the rule of a limit that a check brought as a value. A cached rule
// allocates nothing.
func (s *ActiveConfig) ruleOfValue(limit *InlineLimit) (*Rule, error) {
	if r, ok := s.inlineByValue.Get(*limit); ok {
		return r, nil
	}
	rule := headgate.Rule{
		Scope:        "own:" + limit.Scope,
		Name:         limit.Name,
		Limit:        limit.Limit,
		Algorithm:    limit.Algorithm,
		OnStoreError: limit.OnStoreError,
	}
	if rule.Name == "" {
		rule.Name = limit.Limit.String()
	}
	if rule.OnStoreError == "" {
		rule.OnStoreError = s.onError
	}
	r, err := bind(s.store, rule)
	if err != nil {
		return nil, err
	}
	return s.inlineByValue.Put(*limit, r), nil
}

// CheckInline returns why the store cannot enforce a limit, or nil. An API that reads
// limits from its configuration calls it before the first request. It does no I/O.
func (s *ActiveConfig) CheckInline(limit *InlineLimit) error {
	_, err := s.ruleOfValue(limit)
	return err
}

// recentRule is the rule of the last limit as a value that an answer was used for.
type recentRule struct {
	limit InlineLimit
	rule  *Rule
	cache *memo.Map[InlineLimit, *Rule] // that it is from; configurations that share it share rules
}

// ruleOfValue returns the configuration's rule of a limit. The last limit, which is the
// usual case, needs no lookup: that would take a fifth of the time of a decision.
func (a *Answer) ruleOfValue(s *ActiveConfig, limit *InlineLimit) (*Rule, error) {
	if a.recent.cache == s.inlineByValue && a.recent.limit == *limit {
		return a.recent.rule, nil
	}
	r, err := s.ruleOfValue(limit)
	if err == nil {
		a.recent = recentRule{*limit, r, s.inlineByValue}
	}
	return r, err
}
