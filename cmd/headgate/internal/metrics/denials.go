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

// DenialOptions are settings of [NewDenials]. A field that is zero has
// its default; nil means all defaults.
type DenialOptions struct {
	// Log receives a line for a denial; nil means that no denial is logged.
	Log *slog.Logger
	// PerSecond is the maximum number of lines per second for each policy; 0 means that
	// no denial is logged.
	PerSecond int
	// LogKeys is true if the log contains the keys instead of their hashes.
	LogKeys bool
	// TopKeys is true if [Denials.Top] returns the keys instead of their hashes.
	TopKeys bool
	// Secret is the secret that keys are hashed with: instances with the same secret log
	// the same hash for a key. Empty means a random secret.
	Secret string
}

// Denials receives every denial, and every denial of a policy in shadow mode. It keeps
// the keys that are denied most, and logs some denials. It is created with [NewDenials]
// and may be used concurrently.
type Denials struct {
	opts   DenialOptions
	k0, k1 uint64 // of the hash
	top    top

	mu       sync.Mutex
	samplers map[string]*logs.Sampler // by policy
}

// NewDenials returns a Denials without any denial. opts may be nil.
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
	d.top.init(monotonicNow())
	return d
}

// maxKeyBytes is the maximum length of a key in the log and in Top, in bytes.
const maxKeyBytes = 256

// truncate returns the first maxKeyBytes of a text.
func truncate(s string) string {
	if len(s) > maxKeyBytes {
		return s[:maxKeyBytes] + "…"
	}
	return s
}

// hash returns the keyed hash of a key under a policy (SipHash-2-4). It allocates nothing
// for keys of usual length.
func (d *Denials) hash(policy, key string) uint64 {
	var buf [256]byte
	b := append(buf[:0], policy...)
	b = append(append(b, 0), key...)
	return sipHash(d.k0^uint64(len(policy)), d.k1, b)
}

// hashText returns the text of a hash, as it is logged.
func hashText(h uint64) string { return fmt.Sprintf("h:%016x", h) }

// denial is one denial of one request.
type denial struct {
	api        string
	rule       *engine.Rule // that denied
	ruleName   string       // of an Envoy rule; empty for other rules
	key        string
	retryAfter time.Duration
	shadow     bool // the policy is in shadow mode, so the request was not denied
}

// add records a denial; s is the sampler of its policy.
func (d *Denials) add(one *denial, s *logs.Sampler) {
	now := monotonicNow()
	h := d.hash(one.rule.Policy, one.key)
	text := ""
	if d.opts.TopKeys {
		text = one.key
	}
	d.top.add(now, h, one.rule.Policy, text, one.shadow)
	if d.opts.Log == nil || d.opts.PerSecond == 0 {
		return
	}
	if suppressed, ok := s.Take(now, d.opts.PerSecond); ok {
		d.log(one, h, suppressed)
	}
}

// log logs a denial. It is called for sampled denials only, so it may allocate.
func (d *Denials) log(one *denial, h, suppressed uint64) {
	key, message := hashText(h), "request denied"
	if d.opts.LogKeys {
		key = truncate(one.key)
	}
	if one.shadow {
		message = "request would be denied (shadow mode)"
	}
	attrs := []any{"api", one.api, "policy", one.rule.Policy}
	if one.ruleName != "" {
		attrs = append(attrs, "rule", truncate(one.ruleName))
	}
	d.opts.Log.Info(message, append(attrs, "limit", one.rule.Limit.String(), "key", key,
		"retry_after_ms", (one.retryAfter+time.Millisecond-1).Milliseconds(), "suppressed", suppressed)...)
}

// sampler returns the sampler of a policy, which all APIs share.
func (d *Denials) sampler(policy string) *logs.Sampler {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.samplers[policy] == nil {
		d.samplers[policy] = &logs.Sampler{}
	}
	return d.samplers[policy]
}

// suppressedDenials collects the number of denials that were not logged.
type suppressedDenials struct{ denials *Denials }

var suppressedDesc = prometheus.NewDesc(namespace+"_denials_not_logged_total",
	"Denials that were not logged because the policy had reached its log lines per second.", []string{"policy"}, nil)

func (n *suppressedDenials) Describe(to chan<- *prometheus.Desc) { to <- suppressedDesc }

func (n *suppressedDenials) Collect(to chan<- prometheus.Metric) {
	n.denials.mu.Lock()
	defer n.denials.mu.Unlock()
	for name, s := range n.denials.samplers {
		to <- prometheus.MustNewConstMetric(suppressedDesc, prometheus.CounterValue, float64(s.Suppressed()), name)
	}
}

// Hash returns the hash that replaces a key under a policy, in Top and in the log.
func (d *Denials) Hash(policy, key string) string { return hashText(d.hash(policy, key)) }
