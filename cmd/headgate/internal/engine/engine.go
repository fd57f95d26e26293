// Package engine decides the requests of every API of the service. It has the store, the
// named policies, and the rules of checks that bring their own limit. An API converts its
// protocol into checks, calls [Engine.Decide], and converts the answer back.
//
// # State of a check without a policy
//
// A check that names a policy uses the state of that policy and key: the same state that
// a [headgate.Limiter] of the policy uses over the same store. A check that brings its
// limit as text has no policy name. Its key, its algorithm (gcra is token_bucket) and its
// period identify its state; its rate and burst do not:
//
//   - 20/1m sent after 10/1m on one key is a changed limit: what was spent stays spent.
//   - 10/s and 100/1m on one key never share state.
//   - One request may contain different limits of one algorithm and period on one key,
//     such as 1/s burst 20 and 10/s burst 10. The second limit then gets separate state,
//     and so does the third, in the order of the request. Keep that order from request to
//     request.
//   - The same check twice in one request is charged twice.
//
// A check that brings its limit as a value, an [InlineLimit], names its state with a
// scope.
//
// # Reloading
//
// [Engine.Apply] replaces all policies and settings atomically. An [ActiveConfig] is the
// configuration at one time; each request is decided under exactly one. What was spent
// stays spent; package algo documents what that means for a changed limit.
//
// # Shadow mode
//
// A policy can be in shadow mode, for all keys or for a percentage of them. It counts as
// usual, and its result is reported in the answer ([Answer].Shadows), but the request is
// allowed. In a request with several policies, the enforced policies are decided first,
// all or none. The shadow policies are charged only if the enforced ones allow the
// request. A hash of policy name and key selects the keys, the same in every process. A
// larger percentage includes all keys of a smaller one.
package engine

import (
	"cmp"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/memo"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// Limits on input, unless [Options] set others.
const (
	DefaultMaxKeyBytes = 1 << 10
	DefaultMaxChecks   = 32
)

// maxInlineRules is the maximum number of cached rules of checks without a policy: this
// many for limits as text, and as many for limits as values.
const maxInlineRules = 4096

// Engine decides requests. It is created with [New] and may be used concurrently. It does
// not own its store.
type Engine struct {
	store  headgate.Store
	health headgate.Bound
	active atomic.Pointer[ActiveConfig]

	observer Observer // nil unless WithObserver created this engine
	everyNth uint32   // Begin is called for one in everyNth requests
	parent   *Engine  // the engine that WithObserver was called on

	mu    sync.Mutex // held by Apply
	views []*Engine  // observed engines that share this engine's configuration
}

// Options are an engine's settings. A field that is zero has its default; nil
// means all defaults.
type Options struct {
	// Policies are the policies that a check may name, by that name. A policy's own Name
	// is empty or the same.
	Policies map[string]headgate.Policy
	// PolicyOptions are further settings of policies, by policy name.
	PolicyOptions map[string]PolicyOptions
	// OnStoreError is the failure mode of checks that bring their own limit; the zero
	// value means [headgate.FailClosed]. A policy has its own.
	OnStoreError headgate.OnStoreError
	// Enforcement is whether requests are denied at all; the zero value means [On].
	Enforcement Enforcement
	// MaxKeyBytes is the maximum length of a key, in bytes; 0 means [DefaultMaxKeyBytes].
	MaxKeyBytes int
	// MaxChecks is the maximum number of checks in one request; 0 means
	// [DefaultMaxChecks].
	MaxChecks int
	// Routes select the policies of an HTTP request. The engine only stores them for the
	// APIs that decide about HTTP requests. nil means no routes.
	Routes *routing.Table
	// TrustedProxies are the networks of proxies whose client addresses are trusted. The
	// engine only stores them. The APIs that use them validate them.
	TrustedProxies []netip.Prefix
}

// PolicyOptions are settings of a policy in addition to its limits.
type PolicyOptions struct {
	// Overrides are limits for single keys that replace the policy's own. They use the
	// same state.
	Overrides map[string][]headgate.Limit
	// Shadow is the percentage of keys for which the policy is in shadow mode; see the
	// package.
	Shadow Percent
}

// Rule is one limit as the engine stores it. All requests that use the limit share it.
type Rule struct {
	Policy    string             // its policy; empty for a check that brought its own limit
	Name      string             // its name in DeniedBy
	Limit     headgate.Limit     // always valid
	Algorithm headgate.Algorithm // always a name of package algo's list, never an alias
	isText    bool               // of a check that brought its limit as text; see inlineKey
	ordinal   int
	bound     headgate.Bound
	queues    bool // the algorithm has a queue
}

// Capacity returns the units that a full or unused key has: what a decision calls its
// Limit.
func (r *Rule) Capacity() int64 { return r.bound.Limit() }

// ActiveConfig is what an engine decides by at one time. It does not change, and stays
// usable after another has replaced it: an API that matches routes and then decides does
// both under one configuration.
type ActiveConfig struct {
	store         headgate.Store
	policies      map[string]*policy
	rules         map[headgate.Rule]*Rule
	inlineByText  *memo.Map[inlineKey, *Rule]
	inlineByValue *memo.Map[InlineLimit, *Rule]
	onError       headgate.OnStoreError // of checks without a policy
	enforcement   Enforcement
	maxKeyBytes   int
	maxChecks     int
	routes        *routing.Table
	proxies       []netip.Prefix
	generation    uint64
	observer      Observer // nil means no observer
	everyNth      uint32   // Begin is called for one in everyNth requests; 0 means never
}

// New returns an engine over store. It returns an error for a policy that the store
// cannot enforce, which the error names, and for an OnStoreError that the store does not
// support. It does no I/O. opts may be nil.
func New(store headgate.Store, opts *Options) (*Engine, error) {
	e := &Engine{store: store}
	var err error
	if e.health, err = bindHealth(store); err != nil {
		return nil, fmt.Errorf("health check: %w", err)
	}
	if err := e.Apply(opts); err != nil {
		return nil, err
	}
	return e, nil
}

// Apply replaces the active configuration with opts, or changes nothing and returns an
// error. Requests in flight finish under the configuration that they began with. It does
// no I/O. opts may be nil.
func (e *Engine) Apply(opts *Options) error {
	if e.parent != nil {
		return e.parent.Apply(opts)
	}
	opts = cmp.Or(opts, &Options{})
	e.mu.Lock()
	defer e.mu.Unlock()
	next, err := newActiveConfig(e.store, opts, e.active.Load())
	if err != nil {
		return err
	}
	e.install(next)
	return nil
}

// ActiveConfig returns the active configuration.
func (e *Engine) ActiveConfig() *ActiveConfig { return e.active.Load() }

// MaxChecks returns the maximum number of checks in one request, so that an API can stop
// reading early.
func (e *Engine) MaxChecks() int { return e.active.Load().maxChecks }

// Routes returns the routes of HTTP requests; never nil.
func (s *ActiveConfig) Routes() *routing.Table { return s.routes }

// TrustedProxies returns the networks of trusted proxies. They must not be changed.
func (s *ActiveConfig) TrustedProxies() []netip.Prefix { return s.proxies }

// Generation returns the number of this configuration; an engine numbers them from 1.
func (s *ActiveConfig) Generation() uint64 { return s.generation }

// MaxChecks returns the maximum number of checks in one request.
func (s *ActiveConfig) MaxChecks() int { return s.maxChecks }

// Enforcement returns whether requests are denied at all.
func (s *ActiveConfig) Enforcement() Enforcement { return s.enforcement }

// newActiveConfig binds all policies of opts. It reuses the rules of last that have not
// changed: APIs identify rules by their addresses.
func newActiveConfig(store headgate.Store, opts *Options, last *ActiveConfig) (*ActiveConfig, error) {
	s := &ActiveConfig{
		store:       store,
		policies:    make(map[string]*policy, len(opts.Policies)),
		rules:       make(map[headgate.Rule]*Rule),
		onError:     opts.OnStoreError,
		enforcement: opts.Enforcement,
		maxKeyBytes: cmp.Or(opts.MaxKeyBytes, DefaultMaxKeyBytes),
		maxChecks:   cmp.Or(opts.MaxChecks, DefaultMaxChecks),
		routes:      opts.Routes,
		proxies:     opts.TrustedProxies,
		generation:  1,
	}
	if s.routes == nil {
		s.routes = routing.NewTable(nil, nil)
	}
	s.reuseInline(last)
	if err := validateOnStoreError(store, s.onError); err != nil {
		return nil, fmt.Errorf("checks without a policy: %w", err)
	}
	if err := s.enforcement.validate(); err != nil {
		return nil, err
	}
	if err := s.bindPolicies(opts, last); err != nil {
		return nil, err
	}
	for name := range opts.PolicyOptions {
		if s.policies[name] == nil {
			return nil, fmt.Errorf("%w: PolicyOptions contains %q, which is not a policy", headgate.ErrInvalidPolicy, name)
		}
	}
	return s, nil
}

// reuseInline takes over the cached rules of checks without a policy, unless OnStoreError
// has changed: no other setting affects them.
func (s *ActiveConfig) reuseInline(last *ActiveConfig) {
	if last != nil {
		s.generation = last.generation + 1
	}
	if last != nil && last.onError == s.onError {
		s.inlineByText, s.inlineByValue = last.inlineByText, last.inlineByValue
		return
	}
	s.inlineByText = memo.New[inlineKey, *Rule](maxInlineRules)
	s.inlineByValue = memo.New[InlineLimit, *Rule](maxInlineRules)
}

// bind binds a rule to the store, under the algorithm name that package algo lists.
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
	return &Rule{Name: rule.Name, Limit: rule.Limit, Algorithm: rule.Algorithm, bound: bound, queues: rule.Algorithm.Queues()}, nil
}
