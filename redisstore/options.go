package redisstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// Layout is the format of a key's state in Redis.
type Layout string

// The layouts. The zero value means [LayoutHeadgate].
const (
	// LayoutHeadgate stores the state of every algorithm in strings in the format of
	// this package.
	LayoutHeadgate Layout = "headgate"
	// LayoutGuide stores token_bucket_interval as the scripts in the Redis guides do:
	// as a hash with the fields tokens and last_refill, under exactly the caller's key.
	// Services that run such a script share the bucket. Everything else is as in
	// LayoutHeadgate.
	LayoutGuide Layout = "guide"
)

// Options are the settings of a store. A field that is zero has its default; nil
// means all defaults. The batching and caching settings do not change any decision.
type Options struct {
	// Namespace separates programs that use the same server. Programs with the same
	// namespace share the state of policies with the same name. It has at most 64
	// bytes; empty means "default".
	Namespace string
	// Group returns the part of a key that decides its slot in a cluster; nil means the
	// whole key. Limits on keys with the same part are applied in one call: user:7:read
	// and user:7:write, for example, grouped as user:7. Group must not block. Every
	// program that shares the state must use the same grouping.
	Group func(key string) string
	// Layout is the format of the state of token_bucket_interval.
	Layout Layout
	// Timeout bounds a call whose context has no deadline. It also bounds how long a
	// call may be queued. 0 means 1 s.
	Timeout time.Duration
	// MaxWaiting is the maximum number of queued calls. The next call fails with
	// [headgate.ReasonOverloaded]. 0 means 65,536.
	MaxWaiting int
	// NoBatching sends each call alone, even while other calls are in flight.
	NoBatching bool
	// DenialCacheTTL is how long, at most, a key that has nothing left is denied
	// without a call to Redis. Redis would deny, too, unless in the meantime another
	// process refunds units, undoes a charge on several nodes, or decides by another
	// limit of the same policy. 0 means 1 s; below 0 disables the cache. After this
	// process has refunded units under a rule (Refund, Reset, Cancel), nothing is
	// cached under that rule.
	DenialCacheTTL time.Duration
	// Ephemeral removes all keys of the namespace when the store is closed. Use it for
	// a namespace that no other program uses. Buckets in LayoutGuide belong to no
	// namespace; they remain until their TTL ends.
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
