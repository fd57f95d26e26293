package metrics

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dchest/siphash"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/service/engine"
)

// DenialOptions are settings of [NewDenials]. The zero value of each field is its default; nil means all defaults.
type DenialOptions struct {
	// Log gets a line for a denial; nil means that none is logged.
	Log *slog.Logger
	// PerSecond is the most lines in a second for each policy; 0 means that none is logged.
	PerSecond int
	// LogKeys has the log hold keys as they are, and not their hashes.
	LogKeys bool
	// TopKeys has [Denials.Top] hold keys as they are, and not their hashes.
	TopKeys bool
	// Secret is what keys are hashed with: instances that have the same write the same hash for a key. Empty means one by chance.
	Secret string
}

// Denials hear of every denial: they keep the keys that are denied most, and log some. They are made with [NewDenials] and may be used
// concurrently.
type Denials struct {
	opts   DenialOptions
	k0, k1 uint64 // of the hash
	top    top

	mu       sync.Mutex
	samplers map[string]*sampler // by policy
}

// NewDenials makes them. opts may be nil.
func NewDenials(opts *DenialOptions) *Denials {
	d := &Denials{samplers: make(map[string]*sampler)}
	if opts != nil {
		d.opts = *opts
	}
	secret := sha256.Sum256([]byte(d.opts.Secret))
	if d.opts.Secret == "" {
		_, _ = rand.Read(secret[:]) // it never fails
	}
	d.k0, d.k1 = binary.LittleEndian.Uint64(secret[:]), binary.LittleEndian.Uint64(secret[8:])
	d.opts.Secret = ""
	d.top.init(moment())
	return d
}

// mostShown bounds what is shown of a key or a limit's name, in bytes.
const mostShown = 256

// shown is the beginning of a text.
func shown(s string) string {
	if len(s) > mostShown {
		return s[:mostShown] + "…"
	}
	return s
}

// hash is the keyed hash of a key under a policy (SipHash-2-4). It allocates nothing for keys of usual length.
func (d *Denials) hash(policy, key string) uint64 {
	var buf [256]byte
	b := append(buf[:0], policy...)
	b = append(append(b, 0), key...)
	return siphash.Hash(d.k0^uint64(len(policy)), d.k1, b)
}

// hashText is a hash as it is written.
func hashText(h uint64) string { return fmt.Sprintf("h:%016x", h) }

// add notes a denial.
func (d *Denials) add(door string, rule *engine.Rule, key string, decision *headgate.Decision, s *sampler) {
	now := moment()
	h := d.hash(rule.Policy, key)
	text := ""
	if d.opts.TopKeys {
		text = key
	}
	d.top.add(now, h, rule.Policy, text)
	if leftOut, ok := s.take(now, d.opts.PerSecond); ok {
		d.log(door, rule, key, h, decision, leftOut)
	}
}

func (d *Denials) log(door string, rule *engine.Rule, key string, h uint64, decision *headgate.Decision, leftOut uint64) {
	text := hashText(h)
	if d.opts.LogKeys {
		text = shown(key)
	}
	d.opts.Log.Info("denied", "door", door, "policy", rule.Policy, "limit", shown(rule.Name), "key", text,
		"retry_after_ms", (decision.RetryAfter + time.Millisecond - 1).Milliseconds(), "left_out", leftOut)
}

// sampler is the one of a policy, at whatever door.
func (d *Denials) sampler(policy string) *sampler {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.samplers[policy] == nil {
		d.samplers[policy] = &sampler{silent: d.opts.Log == nil || d.opts.PerSecond == 0}
	}
	return d.samplers[policy]
}

// sampler lets so many denials of a policy be logged in each second, and counts the others.
type sampler struct {
	silent bool // none is

	mu      sync.Mutex
	second  int64 // that logged is of
	logged  int
	leftOut uint64 // since the last one that was logged
	all     uint64 // that were left out, ever
}

// take reports whether a denial is logged now, and how many were not since the last one.
func (s *sampler) take(now int64, most int) (leftOut uint64, ok bool) {
	if s.silent {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if second := now / int64(time.Second); second != s.second {
		s.second, s.logged = second, 0
	}
	if s.logged >= most {
		s.leftOut++
		s.all++
		return 0, false
	}
	s.logged++
	leftOut, s.leftOut = s.leftOut, 0
	return leftOut, true
}

// notLogged collects how many denials the log does not hold.
type notLogged struct{ denials *Denials }

var notLoggedDesc = prometheus.NewDesc(namespace+"_denials_not_logged_total",
	"Denials that the log does not hold, because it had as many of that policy in the same second.", []string{"policy"}, nil)

func (n *notLogged) Describe(to chan<- *prometheus.Desc) { to <- notLoggedDesc }

func (n *notLogged) Collect(to chan<- prometheus.Metric) {
	n.denials.mu.Lock()
	defer n.denials.mu.Unlock()
	for name, s := range n.denials.samplers {
		s.mu.Lock()
		all := s.all
		s.mu.Unlock()
		to <- prometheus.MustNewConstMetric(notLoggedDesc, prometheus.CounterValue, float64(all), name)
	}
}

// Hash is what stands for a key under a policy, here and in the log.
func (d *Denials) Hash(policy, key string) string { return hashText(d.hash(policy, key)) }
