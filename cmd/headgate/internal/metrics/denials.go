package metrics

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/activity"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// DenialOptions are the settings for [NewDenials]. A field with its zero value has the
// default in its comment; nil options mean all defaults.
type DenialOptions struct {
	// Log receives one line for each logged denial; nil means that no denial is logged.
	Log *slog.Logger
	// PerSecond is the maximum number of lines per second for each policy; 0 means that
	// no denial is logged.
	PerSecond int
	// LogKeys makes the log contain the keys instead of their hashes.
	LogKeys bool
	// TopKeys makes [Denials.Top], [Metrics.HotKeys] and [Denials.Recent] return the keys
	// instead of their hashes.
	TopKeys bool
	// Secret is the secret for hashing keys. Instances with the same secret have the
	// same hash for a key. Empty means a random secret.
	Secret string
}

// Denials records denials, including those of policies in shadow mode, which do not
// deny the request. It keeps the keys that are denied most often and the last denials,
// and logs a sample of the denials. It is created with [NewDenials] and may be used
// concurrently.
type Denials struct {
	opts   DenialOptions
	k0, k1 uint64 // keys of the hash
	top    *activity.TopKeys
	recent activity.Denials

	mu       sync.Mutex
	samplers map[string]*logs.Sampler // by policy
}

// NewDenials returns a Denials with no denials recorded. opts may be nil.
func NewDenials(opts *DenialOptions) *Denials {
	d := &Denials{samplers: make(map[string]*logs.Sampler)}
	if opts != nil {
		d.opts = *opts
	}
	secret := sha256.Sum256([]byte(d.opts.Secret))
	if d.opts.Secret == "" {
		_, _ = rand.Read(secret[:]) // never fails
	}
	d.k0, d.k1 = binary.LittleEndian.Uint64(secret[:]), binary.LittleEndian.Uint64(secret[8:])
	d.opts.Secret = ""
	d.top = activity.NewTopKeys(monotonicNow())
	return d
}

// hash returns a keyed hash (SipHash-2-4) of a policy and a key. It allocates nothing
// if both together have fewer than 256 bytes.
func (d *Denials) hash(policy, key string) uint64 {
	var buf [256]byte
	b := append(buf[:0], policy...)
	b = append(append(b, 0), key...)
	return sipHash(d.k0^uint64(len(policy)), d.k1, b)
}

// hashText returns the text form of a hash, for the log and for Top.
func hashText(h uint64) string { return fmt.Sprintf("h:%016x", h) }

// denial is the denial of one request by one limit.
type denial struct {
	api        string
	rule       *engine.Rule    // limit that denied the request
	reported   *headgate.Limit // limit for the log, if it is not that of rule; may be nil
	ruleName   string          // name of the Envoy rule; empty for other limits
	key        string
	retryAfter time.Duration
	shadow     bool // whether the policy is in shadow mode, so that the request was not really denied
}

// add records a denial. s is the log sampler of the denial's policy.
func (d *Denials) add(one *denial, s *logs.Sampler) {
	now := monotonicNow()
	h := d.hash(one.rule.Policy, one.key)
	text := ""
	if d.opts.TopKeys {
		text = one.key
	}
	d.top.Add(now, &activity.Hit{Hash: h, Policy: one.rule.Policy, Key: text, Shadow: one.shadow, Weight: 1})
	d.remember(one, h, text)
	if d.opts.Log == nil || d.opts.PerSecond == 0 {
		return
	}
	if suppressed, ok := s.Take(now, d.opts.PerSecond); ok {
		d.log(one, suppressed)
	}
}

// remember adds a denial to the last ones.
func (d *Denials) remember(one *denial, h uint64, key string) {
	last := activity.Denial{
		Time: time.Now(), API: one.api, Policy: one.rule.Policy, Rule: activity.Truncate(one.ruleName), Limit: one.rule.Text(),
		Hash: h, Key: strings.Clone(activity.Truncate(key)), RetryAfter: one.retryAfter, Shadow: one.shadow,
	}
	if one.reported != nil {
		last.Limit = one.reported.String()
	}
	d.recent.Add(&last)
}

// log logs a denial. It may allocate, because it is called only for a sample of the
// denials. suppressed is the number of denials since the last log line that were not
// logged.
func (d *Denials) log(one *denial, suppressed uint64) {
	key, message := d.LogText(one.rule.Policy, one.key), "request denied"
	if one.shadow {
		message = "request would be denied (shadow mode)"
	}
	attrs := []any{"api", one.api}
	if one.rule.Policy != "" {
		attrs = append(attrs, "policy", one.rule.Policy)
	}
	if one.ruleName != "" {
		attrs = append(attrs, "rule", activity.Truncate(one.ruleName))
	}
	limit := one.rule.Limit
	if one.reported != nil {
		limit = *one.reported
	}
	d.opts.Log.Info(message, append(attrs, "limit", limit.String(), "key", key,
		"retry_after_ms", (one.retryAfter+time.Millisecond-1).Milliseconds(), "suppressed", suppressed)...)
}

// sampler returns the log sampler of a policy. All APIs share it.
func (d *Denials) sampler(policy string) *logs.Sampler {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.samplers[policy] == nil {
		d.samplers[policy] = &logs.Sampler{}
	}
	return d.samplers[policy]
}

// suppressedDenials is a Prometheus collector of the numbers of denials that were not
// logged.
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

// LogText returns the text that represents a key of a policy in the log: its hash, or the
// key with [DenialOptions.LogKeys].
func (d *Denials) LogText(policy, key string) string {
	if d.opts.LogKeys {
		return activity.Truncate(key)
	}
	return d.Hash(policy, key)
}

// Hash returns the hash that represents a key of a policy in the log and in the result
// of Top.
func (d *Denials) Hash(policy, key string) string { return hashText(d.hash(policy, key)) }
