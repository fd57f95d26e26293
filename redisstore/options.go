package redisstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// Layout is the format in which the state of a key is stored in Redis.
type Layout string

// The layouts. The zero value means [LayoutHeadgate].
const (
	// LayoutHeadgate stores the state of every algorithm in strings in the format of
	// this package.
	LayoutHeadgate Layout = "headgate"
	// LayoutGuide stores the state of token_bucket_interval in the same way as the
	// scripts in the Redis guides: in a hash with the fields tokens and last_refill,
	// whose Redis key is exactly the caller's key. A service that runs such a script
	// uses the same bucket. The other algorithms are stored as in LayoutHeadgate.
	// Only one limit of one policy of a store can use this layout.
	LayoutGuide Layout = "guide"
)

// Options are the settings of a store. A field with the zero value has the default
// given in its comment; a nil *Options means all defaults.
type Options struct {
	// Namespace separates programs that use the same server. Programs with the same
	// namespace share the state of policies that have the same name. It has at most 64
	// bytes; empty means "default".
	Namespace string
	// Group returns the part of a key that determines its hash slot in a cluster; nil
	// means the whole key. Limits on keys with the same part are applied in one call,
	// for example on user:7:read and user:7:write if Group returns user:7 for both.
	// Group must not block. All programs that share the state must use the same Group
	// function.
	Group func(key string) string
	// Layout is the format of the state of token_bucket_interval. Empty means
	// [LayoutHeadgate].
	Layout Layout
	// Timeout is the maximum duration of a call whose context has no deadline. It is
	// also the maximum time for which a call may be queued. 0 means 1 s.
	Timeout time.Duration
	// MaxWaiting is the maximum number of queued calls; in a cluster, for each node. Any
	// further call fails with [headgate.ReasonOverloaded]. 0 means
	// 65,536.
	MaxWaiting int
	// NoBatching makes the store send each call alone, even while other calls are in
	// flight. This does not change any decision.
	NoBatching bool
	// DenialCacheTTL is the maximum time for which the store caches a denial. If Redis
	// has reported that a key has no units left, the store denies requests for the key
	// without calling Redis. Redis would deny these requests, too, unless another process
	// has meanwhile refunded units, undone a charge on several nodes, or used a different
	// limit for the same policy. 0 means 1 s; a negative value disables the cache. After
	// this process has refunded units under a rule (Refund, Reset, Cancel), it no longer
	// caches denials under that rule.
	DenialCacheTTL time.Duration
	// OnClockSetBack is called when the server's clock went back by more than a second,
	// also by a failover to a server whose clock is behind. For as long as the clock
	// went back, keys in use are denied more than their limits require: see
	// docs/operate/stores.md. It is called at most once a minute, on the goroutine of a
	// call, and must return fast. It may be nil. Buckets in LayoutGuide are not watched.
	OnClockSetBack func(back time.Duration)
	// Ephemeral makes Close remove all keys of the namespace. Use it for a namespace
	// that no other program uses. Buckets in LayoutGuide are in no namespace; they
	// remain until their TTL ends.
	Ephemeral bool
}

const (
	defaultTimeout        = time.Second
	defaultMaxWaiting     = 1 << 16
	defaultDenialCacheTTL = time.Second
	defaultNamespace      = "default"
	maxNamespace          = 64
)

func (o *Options) withDefaults() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	full.Namespace = cmp.Or(full.Namespace, defaultNamespace)
	full.Timeout = cmp.Or(full.Timeout, defaultTimeout)
	full.MaxWaiting = cmp.Or(full.MaxWaiting, defaultMaxWaiting)
	full.DenialCacheTTL = cmp.Or(full.DenialCacheTTL, defaultDenialCacheTTL)
	return full, full.validate()
}

func (o *Options) validate() error {
	invalid := func(field string, value any, accepted string) error {
		return fmt.Errorf("redisstore: %w: %s is %v; must be %s", headgate.ErrInvalidPolicy, field, value, accepted)
	}
	switch {
	case len(o.Namespace) > maxNamespace:
		return invalid("Namespace", fmt.Sprintf("%d bytes long", len(o.Namespace)), "at most 64 bytes")
	case o.Timeout < 0:
		return invalid("Timeout", o.Timeout, "0 (1s) or more")
	case o.MaxWaiting < 0:
		return invalid("MaxWaiting", o.MaxWaiting, "0 (65536) or more")
	case o.Layout != "" && o.Layout != LayoutHeadgate && o.Layout != LayoutGuide:
		return invalid("Layout", fmt.Sprintf("%.20q", string(o.Layout)), "headgate or guide")
	}
	return nil
}
