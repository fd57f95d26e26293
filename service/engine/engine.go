// Package engine decides for every door of the service: it holds the store, the named policies, and the rules of checks that
// bring their own limit. A door turns its protocol into checks, calls [Engine.Decide], and turns the answer back.
//
// # Whose state a check without a policy counts on
//
// A check that names a policy counts on the state of that policy and key, the same that a [headgate.Limiter] of that policy
// over the same store counts on. A check that brings its own limit has no name to be known by, so its state is told by its
// key, its algorithm (gcra is token_bucket) and its period, not by its rate or burst:
//
//   - 20/1m sent after 10/1m on one key is a changed limit: what was spent stays spent.
//   - 10/s and 100/1m on one key never share anything.
//   - When one request holds two different limits of one algorithm and period on one key (1/s burst 20 and 10/s burst 10), the
//     second gets a state of its own, the third another, in the order of the request. Keep that order from request to request.
//   - The very same check twice in one request counts twice.
package engine

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/service/internal/memo"
)

// Limits on input, unless [Options] say otherwise.
const (
	DefaultMaxKeyBytes = 1 << 10
	DefaultMaxChecks   = 32
)

// mostInline bounds how many rules of checks without a policy are kept ready.
const mostInline = 4096

// Engine decides. It is made with [New] and may be used concurrently. It does not own its store.
type Engine struct {
	store       headgate.Store
	policies    map[string][]*Rule
	inline      *memo.Map[inlineKey, *Rule]
	onError     headgate.OnStoreError // of checks without a policy
	health      headgate.Bound
	maxKeyBytes int
	maxChecks   int
}

// Options are an engine's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Policies are the policies that a check may name, by that name. A policy's own Name is empty or the same.
	Policies map[string]headgate.Policy
	// OnStoreError is what holds for a check that brings its own limit while the store cannot decide; the zero value means
	// [headgate.FailClosed]. A policy says so itself.
	OnStoreError headgate.OnStoreError
	// MaxKeyBytes is the longest key, in bytes; 0 means [DefaultMaxKeyBytes].
	MaxKeyBytes int
	// MaxChecks is the most checks in one request; 0 means [DefaultMaxChecks].
	MaxChecks int
}

// Rule is one limit as the engine keeps it, the same for every request that it takes part in.
type Rule struct {
	Policy    string             // the policy it belongs to; empty for a check that brought its own limit
	Name      string             // what DeniedBy calls it
	Limit     headgate.Limit     // always valid
	Algorithm headgate.Algorithm // always a name of package algo's list, never an alias
	ordinal   int                // of a rule without a policy: see inlineKey
	bound     headgate.Bound
}

// AtOnce is the most that can be spent at once, in units: what a decision calls its Limit.
func (r *Rule) AtOnce() int64 { return r.bound.Limit() }

// New makes an engine over store. It refuses a policy that cannot work, by its name, and an OnStoreError that the store cannot keep.
// It does no I/O. opts may be nil.
func New(store headgate.Store, opts *Options) (*Engine, error) {
	if opts == nil {
		opts = &Options{}
	}
	e := &Engine{
		store:       store,
		policies:    make(map[string][]*Rule, len(opts.Policies)),
		inline:      memo.New[inlineKey, *Rule](mostInline),
		onError:     opts.OnStoreError,
		maxKeyBytes: orDefault(opts.MaxKeyBytes, DefaultMaxKeyBytes),
		maxChecks:   orDefault(opts.MaxChecks, DefaultMaxChecks),
	}
	if err := e.bindHealth(); err != nil {
		return nil, fmt.Errorf("engine: checks without a policy: %w", err)
	}
	for name, policy := range opts.Policies {
		rules, err := bindPolicy(store, name, policy)
		if err != nil {
			return nil, fmt.Errorf("engine: policy %q: %w", name, err)
		}
		e.policies[name] = rules
	}
	return e, nil
}

// MaxChecks is the most checks that one request may hold, so that a door can stop reading early.
func (e *Engine) MaxChecks() int { return e.maxChecks }

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func bindPolicy(store headgate.Store, name string, policy headgate.Policy) ([]*Rule, error) {
	if name == "" || policy.Name != "" && policy.Name != name {
		return nil, fmt.Errorf("%w: it is listed as %q and calls itself %q", headgate.ErrInvalidPolicy, name, policy.Name)
	}
	policy.Name = name
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	var rules []*Rule
	for _, rule := range policy.Rules() {
		r, err := bind(store, rule)
		if err != nil {
			return nil, err
		}
		r.Policy = name
		rules = append(rules, r)
	}
	return rules, nil
}

func bind(store headgate.Store, rule headgate.Rule) (*Rule, error) {
	named, err := algo.Named(rule.Algorithm)
	if err != nil {
		return nil, err
	}
	rule.Algorithm = named.Name
	bound, err := store.Bind(rule)
	if err != nil {
		return nil, err
	}
	return &Rule{Name: rule.Name, Limit: rule.Limit, Algorithm: rule.Algorithm, bound: bound}, nil
}
