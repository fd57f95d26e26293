package metrics

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
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

// Denials hear of every denial, and of those that would have been had the policy counted: they keep the keys that are denied most, and log some. They are made with [NewDenials] and may be used
// concurrently.
type Denials struct {
	opts   DenialOptions
	k0, k1 uint64 // of the hash
	top    top

	mu       sync.Mutex
	samplers map[string]*logs.Sampler // by policy
}

// NewDenials makes them. opts may be nil.
func NewDenials(opts *DenialOptions) *Denials {
	d := &Denials{samplers: make(map[string]*logs.Sampler)}
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

// mostShown bounds what is shown of a key, in bytes.
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
	return sipHash(d.k0^uint64(len(policy)), d.k1, b)
}

// hashText is a hash as it is written.
func hashText(h uint64) string { return fmt.Sprintf("h:%016x", h) }

// denial is one of a request.
type denial struct {
	door       string
	rule       *engine.Rule // that denied
	key        string
	retryAfter time.Duration
	shadow     bool // it would have been one, had the policy counted
}

// add notes a denial; s is the sampler of its policy.
func (d *Denials) add(one *denial, s *logs.Sampler) {
	now := moment()
	h := d.hash(one.rule.Policy, one.key)
	text := ""
	if d.opts.TopKeys {
		text = one.key
	}
	d.top.add(now, h, one.rule.Policy, text, one.shadow)
	if d.opts.Log == nil || d.opts.PerSecond == 0 {
		return
	}
	if leftOut, ok := s.Take(now, d.opts.PerSecond); ok {
		d.log(one, h, leftOut)
	}
}

func (d *Denials) log(one *denial, h, leftOut uint64) {
	key, message := hashText(h), "denied"
	if d.opts.LogKeys {
		key = shown(one.key)
	}
	if one.shadow {
		message = "would be denied"
	}
	d.opts.Log.Info(message, "door", one.door, "policy", one.rule.Policy, "limit", one.rule.Limit.String(), "key", key,
		"retry_after_ms", (one.retryAfter + time.Millisecond - 1).Milliseconds(), "left_out", leftOut)
}

// sampler is the one of a policy, at whatever door.
func (d *Denials) sampler(policy string) *logs.Sampler {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.samplers[policy] == nil {
		d.samplers[policy] = &logs.Sampler{}
	}
	return d.samplers[policy]
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
		to <- prometheus.MustNewConstMetric(notLoggedDesc, prometheus.CounterValue, float64(s.LeftOut()), name)
	}
}

// Hash is what stands for a key under a policy, here and in the log.
func (d *Denials) Hash(policy, key string) string { return hashText(d.hash(policy, key)) }
