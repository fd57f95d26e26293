// Package engine decides the requests of all APIs of the service. An [Engine] has the
// store, the named policies, and the rules of checks without a policy. An API converts
// its protocol into checks, calls [Engine.Decide], and converts the answer back.
//
// # State of a check without a policy
//
// A check that names a policy uses the state of that policy and key. A [headgate.Limiter]
// with the same policy and store uses the same state. A check without a policy contains
// its limit as text or as a value. For a limit as text, the state is identified by the
// key, the algorithm (gcra is token_bucket) and the period; rate and burst do not matter:
//
//   - If 10/1m and later 20/1m are sent on one key, this is a changed limit: spent units
//     stay spent.
//   - 10/s and 100/1m on one key never share state.
//   - One request may contain different limits with the same algorithm, period and key,
//     such as 1/s burst 20 and 10/s burst 10. Each of them then gets separate state,
//     which depends on the order in the request. Send them in the same order each time.
//   - If one request contains the same check twice, both are charged.
//
// For a limit as a value, an [InlineLimit], a scope is used instead of the period.
//
// # Reloading
//
// [Engine.Apply] replaces all policies and settings atomically, and [Engine.ApplyLive]
// the live overrides. An [ActiveConfig] is the configuration at one time; each request is
// decided with exactly one. Spent units stay spent; package algo documents what this
// means for a changed limit.
//
// # Shadow mode
//
// A policy can be in shadow mode, for all keys or for a percentage of them. It counts
// requests as usual, and the answer contains its result ([Answer].Shadows), but it never
// denies a request. In a request with several policies, the enforced policies are decided
// first, all or none. The policies in shadow mode are charged only if the enforced ones
// allow the request. A hash of policy name and key selects the keys in shadow mode, the
// same in every process. A larger percentage includes all keys of a smaller one.
package engine

import (
	"cmp"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/internal/calendar"
	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/internal/root"
)

// The defaults of the input limits in [Options].
const (
	DefaultMaxKeyBytes = 1 << 10
	DefaultMaxChecks   = 32

	DefaultMaxExtendChecks = 1024
)

// maxInlineRules is the maximum number of cached rules for limits as text, and also the
// maximum number for limits as values.
const maxInlineRules = 4096

// Engine decides requests. It is created with [New] and may be used concurrently. It
// does not close its store.
type Engine struct {
	store  headgate.Store
	health headgate.Bound
	active atomic.Pointer[ActiveConfig]

	observer Observer // nil unless [Engine.WithObserver] returned this engine
	everyNth uint32   // Observer.Begin is called for one in everyNth requests; 0 means never
	parent   *Engine  // engine on which WithObserver was called; nil if it was not

	mu    sync.Mutex // held by Apply
	opts  *Options   // options of the active configuration; guarded by mu
	views []*Engine  // engines that WithObserver has returned; they share this engine's configuration
}

// Options are the settings of an engine. A field with its zero value has the default in
// its comment; nil options mean all defaults.
type Options struct {
	// Policies are the policies that checks can name, by name. The field Name of a
	// policy must be empty or the same name.
	Policies map[string]headgate.Policy
	// PolicyOptions are further settings of policies, by policy name.
	PolicyOptions map[string]PolicyOptions
	// OnStoreError is the failure mode for checks without a policy; the zero value
	// means [headgate.FailClosed]. Each policy has its own failure mode.
	OnStoreError headgate.OnStoreError
	// Enforcement is whether requests can be denied; the zero value means [On].
	Enforcement Enforcement
	// MaxKeyBytes is the maximum length of a key that a client sends, in bytes; 0 means
	// [DefaultMaxKeyBytes]. It does not apply to keys that an API composes.
	MaxKeyBytes int
	// MaxChecks is the maximum number of checks in one request that a client sends; 0
	// means [DefaultMaxChecks]. It does not apply to checks that an API composes.
	MaxChecks int
	// MaxExtendChecks is the maximum number of checks of all holds that one request
	// extends; 0 means [DefaultMaxExtendChecks]. One hold can always be extended.
	MaxExtendChecks int
	// Routes select the policies for an HTTP request. The engine does not use them, but
	// stores them for the APIs that decide on HTTP requests. nil means no routes.
	Routes *routing.Table
	// TrustedProxies are the networks of the proxies whose information about the
	// client's address is trusted. The engine does not use or validate them, but stores
	// them for the APIs that do.
	TrustedProxies []netip.Prefix
}

// PolicyOptions are the settings of a policy in addition to its limits.
type PolicyOptions struct {
	// Overrides are, by key, the limits that replace the policy's own limits for that
	// key. A key keeps its state when an override is added or removed.
	Overrides map[string][]headgate.Limit
	// Patterns are the limits of keys that match a pattern and have no override. If
	// several match, the one with the most characters other than stars applies, and of
	// equals the first in alphabetical order.
	Patterns map[string][]headgate.Limit
	// Networks are the limits of keys that are IP addresses in a network, and to which
	// none of the above applies. If several contain the address, the longest prefix
	// applies.
	Networks map[netip.Prefix][]headgate.Limit
	// Shadow is the percentage of keys for which the policy is in shadow mode; see the
	// package documentation.
	Shadow Percent
	// Ban are the settings for bans. The zero value means that there are none.
	Ban Ban
	// WarnAt is the share of each limit from which a key is near it; see
	// [Rule.NearLimit]. 0 means that no key is.
	WarnAt Percent
}

// Rule is a limit that is bound to the store. All requests with the limit share one
// Rule.
type Rule struct {
	Policy    string             // name of its policy; empty for a limit of a check without a policy
	Name      string             // name of the limit in DeniedBy
	Limit     headgate.Limit     // the limit; always valid
	Algorithm headgate.Algorithm // a name that package algo lists, never an alias
	Lease     headgate.LeaseSettings
	isText    bool // whether a check contained the limit as text; see inlineKey
	ordinal   int
	text      string // see Text
	scope     string // see [headgate.Rule]
	bound     headgate.Bound
	queues    bool // whether the algorithm has a queue
	onlyHolds bool // whether only holds take units
	onError   headgate.OnStoreError
	holds     headgate.HoldSettings
	windows   *calendar.Calendar // see [Result.ResetAt]; nil if the limit has no windows
	ban       *BanRules          // bans of the policy; nil if there are none
	warnAt    Percent            // see PolicyOptions
	near      int64              // see NearLimit
}

// Capacity returns the number of units that a full or unused key has. In a decision,
// this is the field Limit.
func (r *Rule) Capacity() int64 { return r.bound.Limit() }

// NearLimit reports whether a decision leaves so few units that the key has used the
// share WarnAt of the policy, or more.
func (r *Rule) NearLimit(d *headgate.Decision) bool { return d.Remaining <= r.near }

// WarnAt returns the setting of the policy.
func (r *Rule) WarnAt() Percent { return r.warnAt }

// Scope returns the text that identifies the state of the limit's keys.
func (r *Rule) Scope() string { return r.scope }

// Text returns the limit as text, such as “10/s burst 20”.
func (r *Rule) Text() string { return r.text }

// ActiveConfig is an immutable configuration of an engine. It remains usable after a
// newer one has replaced it, so that an API can match routes and decide with the same
// configuration.
type ActiveConfig struct {
	store         headgate.Store
	policies      map[string]*policy
	rules         map[headgate.Rule]*Rule
	inlineByText  *memo.Map[inlineKey, *Rule]
	inlineByValue *memo.Map[InlineLimit, *Rule]
	onError       headgate.OnStoreError // failure mode for checks without a policy
	enforcement   Enforcement
	sent          inputLimits // limits of what a client sends
	held          inputLimits // limits of the hold of a token
	maxExtend     int         // maximum number of checks of holds that are extended together
	routes        *routing.Table
	proxies       []netip.Prefix
	generation    uint64
	live          []LiveOverride // live overrides, also those without an effect
	ignoredLive   []LiveError
	observer      Observer // observer of the engine; nil means none
	everyNth      uint32   // Observer.Begin is called for one in everyNth requests; 0 means never
}

// New returns an engine that uses store. If the store can't enforce a policy, New
// returns an error that names the policy. It also returns an error if the store does
// not support the OnStoreError. It does no I/O. opts may be nil.
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

// Apply replaces the active configuration by the one in opts, or changes nothing and
// returns an error. Requests in flight are completed with the configuration that they
// began with. Apply does no I/O. opts may be nil.
func (e *Engine) Apply(opts *Options) error {
	if e.parent != nil {
		return e.parent.Apply(opts)
	}
	opts = cmp.Or(opts, &Options{})
	e.mu.Lock()
	defer e.mu.Unlock()
	var live []LiveOverride
	if last := e.active.Load(); last != nil {
		live = last.live
	}
	return e.applyLocked(opts, live)
}

// applyLocked installs the configuration of opts with live overrides. The caller holds
// e.mu.
func (e *Engine) applyLocked(opts *Options, live []LiveOverride) error {
	next, err := newActiveConfig(e.store, opts, live, e.active.Load())
	if err != nil {
		return err
	}
	e.opts = opts
	e.install(next)
	return nil
}

// ActiveConfig returns the active configuration.
func (e *Engine) ActiveConfig() *ActiveConfig { return e.active.Load() }

// MaxChecks returns the maximum number of checks in one request, so that an API can stop
// reading early.
func (e *Engine) MaxChecks() int { return e.active.Load().sent.checks }

// Routes returns the routes of HTTP requests; never nil.
func (s *ActiveConfig) Routes() *routing.Table { return s.routes }

// TrustedProxies returns the networks of trusted proxies. They must not be changed.
func (s *ActiveConfig) TrustedProxies() []netip.Prefix { return s.proxies }

// Generation returns the number of this configuration. An engine numbers its
// configurations from 1.
func (s *ActiveConfig) Generation() uint64 { return s.generation }

// MaxChecks returns the maximum number of checks in one request.
func (s *ActiveConfig) MaxChecks() int { return s.sent.checks }

// MaxHoldChecks returns the maximum number of checks in the token of a hold, for
// [ParseHold].
func (s *ActiveConfig) MaxHoldChecks() int { return s.held.checks }

// inputLimits are limits of the checks of a request.
type inputLimits struct{ checks, keyBytes int }

// include returns limits that also admit the checks of a request that routes select.
func (l inputLimits) include(routes *routing.Table) inputLimits {
	return inputLimits{max(l.checks, routes.MaxPolicies()), max(l.keyBytes, routing.MaxKeyBytes)}
}

// Enforcement returns whether requests can be denied.
func (s *ActiveConfig) Enforcement() Enforcement { return s.enforcement }

// newActiveConfig binds all policies in opts. It reuses the unchanged rules of last,
// the previous configuration (nil if there is none), because caches such as that of
// package answerfields compare rules by pointer.
func newActiveConfig(store headgate.Store, opts *Options, live []LiveOverride, last *ActiveConfig) (*ActiveConfig, error) {
	s := &ActiveConfig{
		store:       store,
		policies:    make(map[string]*policy, len(opts.Policies)),
		rules:       make(map[headgate.Rule]*Rule),
		onError:     opts.OnStoreError,
		enforcement: opts.Enforcement,
		sent:        inputLimits{cmp.Or(opts.MaxChecks, DefaultMaxChecks), cmp.Or(opts.MaxKeyBytes, DefaultMaxKeyBytes)},
		routes:      opts.Routes,
		proxies:     opts.TrustedProxies,
		generation:  1,
		live:        live,
	}
	if s.routes == nil {
		s.routes = routing.NewTable(nil, nil)
	}
	s.held = s.sent.include(s.routes)
	s.maxExtend = max(s.held.checks, cmp.Or(opts.MaxExtendChecks, DefaultMaxExtendChecks))
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
	s.ignoreUnknownLive()
	for name := range opts.PolicyOptions {
		if s.policies[name] == nil {
			return nil, fmt.Errorf("%w: PolicyOptions contains %q, which is not a policy", headgate.ErrInvalidPolicy, name)
		}
	}
	return s, nil
}

// reuseInline sets the generation of s. It also takes over the cached rules of last for
// checks without a policy, unless OnStoreError has changed. No other setting affects
// these rules.
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

// bind binds a rule to the store. It first replaces an alias of an algorithm by the
// name that package algo lists.
func bind(store headgate.Store, rule headgate.Rule) (*Rule, error) {
	named, err := algo.Named(rule.Algorithm.For(rule.Limit))
	if err != nil {
		return nil, err
	}
	rule.Algorithm = named.Name
	bound, err := root.Bind(store, rule)
	if err != nil {
		return nil, err
	}
	return &Rule{
		Name: rule.Name, Limit: rule.Limit, Algorithm: rule.Algorithm, Lease: rule.Lease,
		text: rule.Limit.String(), scope: rule.Scope, bound: bound,
		queues: rule.Algorithm.Queues(), onlyHolds: rule.Algorithm.OnlyHolds(),
		onError: rule.OnStoreError, holds: rule.Holds,
		windows: windowsOf(&rule),
	}, nil
}
