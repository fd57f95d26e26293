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
//
// A check that brings its limit as a value, [Own], says itself whose state it counts on.
//
// # What changes while it runs
//
// [Engine.Use] puts other policies and settings in the place of those that hold, all at once. A [Snapshot] is what holds at one time;
// a request is decided under one and no other. What was spent stays spent, as package algo says for a changed limit.
//
// # Policies that only watch
//
// A policy can be in shadow, for all keys or for a share of them: it counts as ever, and what it would have answered is told beside
// the answer ([Answer].Shadows), but the request is admitted. Beside others in one request it has no say: those are decided
// first, all or none, and it is charged if they admit the request. Which keys are in the share is told by a hash of the policy's
// name and the key, the same in every process, and a larger share holds all keys of a smaller one.
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

// Limits on input, unless [Options] say otherwise.
const (
	DefaultMaxKeyBytes = 1 << 10
	DefaultMaxChecks   = 32
)

// mostInline bounds how many rules of checks without a policy are kept ready, of those with a text and of those with a value each.
const mostInline = 4096

// Engine decides. It is made with [New] and may be used concurrently. It does not own its store.
type Engine struct {
	store  headgate.Store
	health headgate.Bound
	holds  atomic.Pointer[ActiveConfig]

	observer Observer // nil but for an engine that Observed made
	everyNth uint32   // of its requests begin with it
	of       *Engine  // whose policies that one goes by

	mu    sync.Mutex // held by Use
	views []*Engine  // that go by what this one has in force
}

// Options are an engine's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Policies are the policies that a check may name, by that name. A policy's own Name is empty or the same.
	Policies map[string]headgate.Policy
	// Terms are what is special about some of the policies, by their names.
	PolicyOptions map[string]PolicyOptions
	// OnStoreError is what holds for a check that brings its own limit while the store cannot decide; the zero value means
	// [headgate.FailClosed]. A policy says so itself.
	OnStoreError headgate.OnStoreError
	// Enforcement says whether answers count at all; the zero value means [On].
	Enforcement Enforcement
	// MaxKeyBytes is the longest key, in bytes; 0 means [DefaultMaxKeyBytes].
	MaxKeyBytes int
	// MaxChecks is the most checks in one request; 0 means [DefaultMaxChecks].
	MaxChecks int
	// Routes say which policies a request is under, for doors that see HTTP; the engine itself has no use for them. nil means none.
	Routes *routing.Table
	// TrustedProxies are the networks of proxies that doors believe who the client is; the engine itself has no use for them, either.
	// What they are is for the doors to check.
	TrustedProxies []netip.Prefix
}

// Terms are what is special about a policy.
type PolicyOptions struct {
	// Overrides are limits that hold for one key in place of the policy's own. They count on the same state.
	Overrides map[string][]headgate.Limit
	// Shadow is the share of keys for which the policy only watches; see the package.
	Shadow Percent
}

// Rule is one limit as the engine keeps it, the same for every request that it takes part in.
type Rule struct {
	Policy    string             // the policy it belongs to; empty for a check that brought its own limit
	Name      string             // what DeniedBy calls it
	Limit     headgate.Limit     // always valid
	Algorithm headgate.Algorithm // always a name of package algo's list, never an alias
	inline    bool               // of a check with the text of a limit: ordinal then tells it apart, see inlineKey
	ordinal   int
	bound     headgate.Bound
	queues    bool // the algorithm does
}

// AtOnce is the most that can be spent at once, in units: what a decision calls its Limit.
func (r *Rule) Capacity() int64 { return r.bound.Limit() }

// Snapshot is what an engine decides by at one time. It does not change, and stays usable when another has taken its place: a door
// that looks at the routes and then decides does both under one.
type ActiveConfig struct {
	store       headgate.Store
	policies    map[string]*policy
	rules       map[headgate.Rule]*Rule
	inline      *memo.Map[inlineKey, *Rule]
	own         *memo.Map[InlineLimit, *Rule]
	onError     headgate.OnStoreError // of checks without a policy
	enforcement Enforcement
	maxKeyBytes int
	maxChecks   int
	routes      *routing.Table
	proxies     []netip.Prefix
	generation  uint64
	observer    Observer // nil means that nobody hears of it
	everyNth    uint32   // requests to one that begins with it; 0 means that none does
}

// New makes an engine over store. It refuses a policy that cannot work, by its name, and an OnStoreError that the store cannot keep.
// It does no I/O. opts may be nil.
func New(store headgate.Store, opts *Options) (*Engine, error) {
	e := &Engine{store: store}
	var err error
	if e.health, err = bindHealth(store); err != nil {
		return nil, fmt.Errorf("engine: health: %w", err)
	}
	if err := e.Apply(opts); err != nil {
		return nil, err
	}
	return e, nil
}

// Use puts opts in the place of what holds, all of it, or changes nothing and says why. Requests that are being decided end under
// what held when they came. It does no I/O. opts may be nil.
func (e *Engine) Apply(opts *Options) error {
	if e.of != nil {
		return e.of.Apply(opts)
	}
	opts = cmp.Or(opts, &Options{})
	e.mu.Lock()
	defer e.mu.Unlock()
	next, err := newSnapshot(e.store, opts, e.holds.Load())
	if err != nil {
		return err
	}
	e.hold(next)
	return nil
}

// Snapshot is what holds now.
func (e *Engine) ActiveConfig() *ActiveConfig { return e.holds.Load() }

// MaxChecks is the most checks that one request may hold, so that a door can stop reading early.
func (e *Engine) MaxChecks() int { return e.holds.Load().maxChecks }

// Routes say which policies a request is under; never nil.
func (s *ActiveConfig) Routes() *routing.Table { return s.routes }

// TrustedProxies are the networks of proxies that are believed who the client is. They must not be changed.
func (s *ActiveConfig) TrustedProxies() []netip.Prefix { return s.proxies }

// Generation counts the snapshots of an engine, from 1.
func (s *ActiveConfig) Generation() uint64 { return s.generation }

// MaxChecks is the most checks that one request may hold.
func (s *ActiveConfig) MaxChecks() int { return s.maxChecks }

// Enforcement says whether answers count.
func (s *ActiveConfig) Enforcement() Enforcement { return s.enforcement }

// newSnapshot binds everything that opts name. What has not changed since the last snapshot is taken from there: doors know rules by
// their addresses.
func newSnapshot(store headgate.Store, opts *Options, last *ActiveConfig) (*ActiveConfig, error) {
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
	s.keepInline(last)
	if err := keeps(store, s.onError); err != nil {
		return nil, fmt.Errorf("engine: checks without a policy: %w", err)
	}
	if err := s.enforcement.validate(); err != nil {
		return nil, err
	}
	if err := s.bindPolicies(opts, last); err != nil {
		return nil, err
	}
	for name := range opts.PolicyOptions {
		if s.policies[name] == nil {
			return nil, fmt.Errorf("engine: %w: there are terms for %q, and no such policy", headgate.ErrInvalidPolicy, name)
		}
	}
	return s, nil
}

// keepInline takes over the rules of checks without a policy, which only a changed OnStoreError makes others.
func (s *ActiveConfig) keepInline(last *ActiveConfig) {
	if last != nil {
		s.generation = last.generation + 1
	}
	if last != nil && last.onError == s.onError {
		s.inline, s.own = last.inline, last.own
		return
	}
	s.inline, s.own = memo.New[inlineKey, *Rule](mostInline), memo.New[InlineLimit, *Rule](mostInline)
}

// bind makes a rule ready. Its algorithm gets the name that package algo lists.
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
