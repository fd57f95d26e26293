// Package bans counts the denials of the policies that have bans, and begins the bans; see
// [engine.BanRules]. It observes the requests of the APIs. The denials of a key are summed
// up for a few milliseconds, so that an attack causes few calls of the store. No request
// waits for it.
package bans

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// Options configure [New]. A field with its zero value has the default in its comment.
type Options struct {
	Log *slog.Logger // required
	// Hash returns the text that represents a key of a policy in the log; required.
	Hash func(policy, key string) string
	// Begun is called when this instance has begun a ban; it must return fast. nil means
	// that nothing is called.
	Begun func(b Ban)
	// Gather is the time for which the denials of a key are summed up; 0 means 10 ms.
	Gather time.Duration
	// MaxKeys is the maximum number of keys whose denials are summed up; 0 means 10,000.
	// The denials of further keys are not counted.
	MaxKeys int
}

// Ban is a ban that has begun.
type Ban struct {
	Policy string
	Key    string
	Level  int64         // number of this ban of the key, from 1
	For    time.Duration // duration
	Shadow bool          // whether the policy is in shadow mode for the key
}

// Stats are counts since the start.
type Stats struct {
	Begun   map[string]uint64 // bans that this instance has begun, by policy
	Counted uint64            // denials that were counted in the store
	Dropped uint64            // denials that were not counted, because there were too many keys
	Failed  uint64            // denials that may not have been counted, because the store failed
}

const (
	defaultGather  = 10 * time.Millisecond
	defaultMaxKeys = 10_000
	workers        = 16          // maximum number of concurrent calls of the store
	callTimeout    = time.Second // maximum time of all calls for one key
	linesPerSecond = 10          // log lines about bans
)

// Watcher counts denials. It is created with [New] and may be used concurrently.
type Watcher struct {
	opts    Options
	wake    chan struct{}
	sampler logs.Sampler
	started time.Time

	mu      sync.Mutex
	pending map[subject]int64 // denials that are not counted yet
	begun   map[string]uint64

	counted, dropped, failed atomic.Uint64
}

// subject is a key of a policy with bans.
type subject struct {
	rules  *engine.BanRules
	key    string
	shadow bool
}

// New returns a watcher. Its [Watcher.Run] counts.
func New(opts *Options) *Watcher {
	w := &Watcher{opts: *opts, wake: make(chan struct{}, 1), pending: make(map[subject]int64), begun: make(map[string]uint64), started: time.Now()}
	w.opts.Gather, w.opts.MaxKeys = cmp.Or(opts.Gather, defaultGather), cmp.Or(opts.MaxKeys, defaultMaxKeys)
	return w
}

// Observe adds the denials of a request. It is for an [engine.Observer].
func (w *Watcher) Observe(e *engine.Event) {
	if e.Err != nil || e.Operation != engine.Take && e.Operation != engine.Hold && e.Operation != engine.TakeUpTo {
		return
	}
	rules := e.Rules()
	for from := 0; from < len(rules); {
		to := from + 1
		for to < len(rules) && rules[to].Policy == rules[from].Policy {
			to++
		}
		w.observe(e, from, to)
		from = to
	}
	shadows := e.Shadows()
	for i := range shadows {
		if s := &shadows[i]; s.Err != nil || s.DeniedBy == nil || s.Decision.Degraded != headgate.ReasonNone {
			continue
		}
		if rules, banned := e.ShadowBan(i); rules != nil && !banned {
			w.add(subject{rules, e.ShadowKey(i), true})
		}
	}
}

// observe adds a denial by the limits of one policy, which have the indexes from, …, to-1.
func (w *Watcher) observe(e *engine.Event, from, to int) {
	var rules *engine.BanRules
	denied := false
	for i := from; i < to; i++ {
		d := &e.Decisions()[i]
		if d.Allowed || d.Degraded != headgate.ReasonNone {
			continue
		}
		banned := false
		if rules, banned = e.Ban(i); rules == nil || banned {
			return
		}
		denied = true
	}
	if denied {
		w.add(subject{rules, e.Key(from), false})
	}
}

func (w *Watcher) add(s subject) {
	w.mu.Lock()
	n, known := w.pending[s]
	if !known {
		if len(w.pending) >= w.opts.MaxKeys {
			w.mu.Unlock()
			w.dropped.Add(1)
			return
		}
		s.key = strings.Clone(s.key)
	}
	w.pending[s] = n + 1
	w.mu.Unlock()
	if !known {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// Run counts denials until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.opts.Gather):
		}
		w.countAll(ctx)
	}
}

// countAll counts the pending denials.
func (w *Watcher) countAll(ctx context.Context) {
	w.mu.Lock()
	all := w.pending
	w.pending = make(map[subject]int64)
	w.mu.Unlock()
	slots := make(chan struct{}, workers)
	var calls sync.WaitGroup
	for s, n := range all {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			w.count(ctx, s, n)
		})
	}
	calls.Wait()
}

// count counts n denials of a subject.
func (w *Watcher) count(ctx context.Context, s subject, n int64) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	banned, err := s.rules.Count(ctx, headgate.StoreClock, s.key, n)
	if err != nil {
		w.failed.Add(uint64(n))
		return
	}
	w.counted.Add(uint64(n))
	if banned.For == 0 {
		return
	}
	w.mu.Lock()
	w.begun[s.rules.Policy]++
	w.mu.Unlock()
	w.log(s, banned)
	if w.opts.Begun != nil {
		w.opts.Begun(Ban{s.rules.Policy, s.key, banned.Level, banned.For, s.shadow})
	}
}

func (w *Watcher) log(s subject, b engine.Banned) {
	suppressed, ok := w.sampler.Take(int64(time.Since(w.started)), linesPerSecond)
	if !ok {
		return
	}
	message := "key banned"
	if s.shadow {
		message = "key would be banned (shadow mode)"
	}
	w.opts.Log.Info(message, "policy", s.rules.Policy, "key", w.opts.Hash(s.rules.Policy, s.key), "for", b.For, "ban", b.Level, "suppressed", suppressed)
}

// Stats returns the counts since the start.
func (w *Watcher) Stats() Stats {
	s := Stats{Begun: make(map[string]uint64), Counted: w.counted.Load(), Dropped: w.dropped.Load(), Failed: w.failed.Load()}
	w.mu.Lock()
	defer w.mu.Unlock()
	for policy, n := range w.begun {
		s.Begun[policy] = n
	}
	return s
}
