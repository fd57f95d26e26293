package redisstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// Layout is how a key's state lies in Redis.
type Layout string

// The layouts. The zero value means [LayoutHeadgate].
const (
	// LayoutHeadgate keeps every algorithm's state in strings of this package's own.
	LayoutHeadgate Layout = "headgate"
	// LayoutGuide keeps token_bucket_interval as the scripts in the Redis guides do: a hash with the fields tokens and last_refill
	// at exactly the caller's key, so that services which run such a script share the bucket. All else is as in LayoutHeadgate.
	LayoutGuide Layout = "guide"
)

// Options are a store's settings. The zero value of each field is its default; nil means all defaults. None of the switches
// changes an answer.
type Options struct {
	// Namespace tells programs on one server apart: those with the same one share the state of policies with the same name. At
	// most 64 bytes; empty means "default".
	Namespace string
	// Group says which part of a key decides in which of a cluster's slots it lies; nil means all of it. Keys with the same part
	// are admitted together in one call: user:7:read and user:7:write, say, grouped as user:7. It must not block, and every
	// program that shares the state must group alike.
	Group func(key string) string
	// Layout is how token_bucket_interval is kept.
	Layout Layout
	// Timeout bounds a call whose context has no deadline of its own, and how long a call may wait to be sent; 0 means 1 s.
	Timeout time.Duration
	// MaxWaiting is how many callers may wait to be sent; one more is answered with [headgate.ReasonOverloaded]. 0 means 65,536.
	MaxWaiting int
	// NoBatching sends each call by itself, instead of joining what comes in while others are under way.
	NoBatching bool
	// DenialMemory is for how long, at most, a key that has nothing left is denied without asking Redis again. Redis would say
	// the same, unless another process gives units back meanwhile, undoes a charge on several nodes, or decides by another limit of
	// the same policy. 0 means 1 s; below 0 nothing is remembered. Once this process
	// has given units back under a rule (Refund, Reset, Cancel), nothing is remembered under that rule.
	DenialCacheTTL time.Duration
	// Ephemeral removes everything in the namespace when the store is closed: for a namespace that nobody else uses. Buckets in
	// LayoutGuide are in none, and stay until their life ends.
	Ephemeral bool
}

const (
	defaultTimeout      = time.Second
	defaultMaxWaiting   = 1 << 16
	defaultDenialMemory = time.Second
	defaultNamespace    = "default"
	maxNamespace        = 64
)

func (o *Options) withDefaults() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	full.Namespace = cmp.Or(full.Namespace, defaultNamespace)
	full.Timeout = cmp.Or(full.Timeout, defaultTimeout)
	full.MaxWaiting = cmp.Or(full.MaxWaiting, defaultMaxWaiting)
	full.DenialCacheTTL = cmp.Or(full.DenialCacheTTL, defaultDenialMemory)
	return full, full.validate()
}

func (o *Options) validate() error {
	wrong := func(what string, value any, accepted string) error {
		return fmt.Errorf("redisstore: %w: %s is %v; accepted are %s", headgate.ErrInvalidPolicy, what, value, accepted)
	}
	switch {
	case len(o.Namespace) > maxNamespace:
		return wrong("namespace", fmt.Sprintf("%d bytes long", len(o.Namespace)), "at most 64 bytes")
	case o.Timeout < 0:
		return wrong("timeout", o.Timeout, "times above 0")
	case o.MaxWaiting < 0:
		return wrong("max waiting", o.MaxWaiting, "whole numbers from 1")
	case o.Layout != "" && o.Layout != LayoutHeadgate && o.Layout != LayoutGuide:
		return wrong("layout", fmt.Sprintf("%.20q", string(o.Layout)), "headgate and guide")
	}
	return nil
}
