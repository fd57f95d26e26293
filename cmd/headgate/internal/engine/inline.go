package engine

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/memo"
)

// maxCachedBytes is the maximum total length, in bytes, of a limit and an algorithm as
// text whose rule is cached. Together with maxInlineRules, it limits the memory that
// clients' texts use. A longer text, which mostly consists of spaces, is parsed again
// by every request.
const maxCachedBytes = 128

// inlineKey identifies the limit of a check without a policy, given as text. The
// ordinal distinguishes different limits with the same algorithm, period and key in one
// request. The first of them has the ordinal 0, the next one 1, in the order of the
// request.
type inlineKey struct {
	limit, algorithm string
	ordinal          int
}

// ruleOfText returns the rule of a limit that a check contains as text.
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
		Scope:        "inline:" + strconv.Itoa(k.ordinal) + ":" + windowText(limit, headgate.Algorithm(k.algorithm)),
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

// windowText returns the period of a limit, or its calendar if the algorithm has one, for
// a scope.
func windowText(l headgate.Limit, a headgate.Algorithm) string {
	if l.Calendar.Unit == 0 || !a.For(l).HasCalendar() {
		return l.Period.String()
	}
	_, text, _ := strings.Cut(l.String(), "/")
	return text
}

// sameWindows reports whether limits of the two rules have the same windowText.
func sameWindows(r, other *Rule) bool {
	return r.Algorithm == other.Algorithm && r.Limit.Period == other.Limit.Period &&
		(r.Limit.Calendar == other.Limit.Calendar || !r.Algorithm.HasCalendar())
}

// ordinalOf returns the ordinal for a check on key. The parameter first is the check's
// rule with the ordinal 0; c holds the charges of the preceding checks in the request.
func (c *charges) ordinalOf(first *Rule, key string) int {
	next := 0
	for i, r := range c.rules {
		if i < c.first || !r.isText || !sameWindows(r, first) || c.Ops[i].Key != key {
			continue
		}
		if r.Limit.Rate == first.Limit.Rate && r.Limit.Capacity() == first.Limit.Capacity() {
			return r.ordinal
		}
		next = max(next, r.ordinal+1)
	}
	return next
}

// InlineLimit is a limit that a check contains as a value, for APIs with limits in
// their protocol or configuration. It must not change while it is in use.
type InlineLimit struct {
	// Scope, the algorithm and the key identify the state; the limit does not. The
	// scope is the name of the API, followed by anything else that must separate
	// states. Checks with different scopes share no state with each other, with
	// policies, or with limits as text. Scopes are retained, so there should be few,
	// and clients must not choose them.
	Scope string
	// Limit is the limit.
	Limit headgate.Limit
	// Algorithm is the algorithm; the zero value means [headgate.TokenBucket].
	Algorithm headgate.Algorithm
	// OnStoreError is the failure mode; the zero value means [Options].OnStoreError.
	OnStoreError headgate.OnStoreError
	// Lease are the settings for leases; the zero value means no leases.
	Lease headgate.LeaseSettings
	// Name is the name of the limit in DeniedBy; empty means the text of the limit.
	Name string
}

// ruleOfValue returns the rule of a limit that a check contains as a value. If the rule
// is cached, ruleOfValue allocates nothing.
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
		Lease:        limit.Lease,
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

// CheckInline returns nil, or an error if the store can't enforce limit. An API that
// reads limits from its configuration calls CheckInline before the first request. It
// does no I/O.
func (s *ActiveConfig) CheckInline(limit *InlineLimit) error {
	_, err := s.ruleOfValue(limit)
	return err
}

// recentRule is the last limit as a value for which an answer was used, with its rule.
type recentRule struct {
	limit InlineLimit
	rule  *Rule
	cache *memo.Map[InlineLimit, *Rule] // cache that holds rule; configurations with the same cache share rules
}

// ruleOfValue returns the rule that configuration s has for limit. If limit is the one
// of the previous call, as usual, it skips the lookup in the cache, which would take a
// fifth of the time of a decision.
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
