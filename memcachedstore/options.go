package memcachedstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// Options are the settings of a store. A field that is zero has its default; nil
// means all defaults. DisableJoin does not change any decision.
type Options struct {
	// Namespace separates programs that use the same servers. Programs with the same
	// namespace share the state of policies with the same name. It has at most 64
	// bytes; empty means "default".
	Namespace string
	// Timeout bounds a call whose context has no deadline. It also bounds each wait for
	// a server, even if the context has a deadline. 0 means 1 s. Over an existing
	// client, the client's own Timeout bounds the waits.
	Timeout time.Duration
	// MaxTries is how often one operation is tried if other processes change the key
	// between its gets and its cas. After that it fails with
	// [headgate.ReasonOverloaded]. 0 means 32.
	MaxTries int
	// MaxWaiting is the maximum number of calls in progress. The next call fails with
	// [headgate.ReasonOverloaded]. 0 means 10,000.
	MaxWaiting int
	// MaxConns is the maximum number of concurrent operations on each server, and also
	// the maximum number of concurrent operations on several servers. 0 means 64. There
	// are at most as many connections, plus two for writes; fewer if operations are
	// batched. Further calls wait for their turn. Over an existing client, all its
	// servers count as one.
	MaxConns int
	// DisableJoin makes every call an operation of its own. By default, calls on one
	// key are joined while an operation on it is in progress. The next operation then
	// decides for all of them in the order of arrival.
	DisableJoin bool
	// Ephemeral records the names of all written keys, about 40 bytes each, and deletes
	// them when the store is closed. Use it for a namespace that no other program uses.
	Ephemeral bool
}

const (
	defaultNamespace  = "default"
	maxNamespace      = 64
	defaultTimeout    = time.Second
	defaultMaxTries   = 32
	defaultMaxWaiting = 10_000
	defaultMaxConns   = 64
)

func (o *Options) withDefaults() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	if err := full.validate(); err != nil {
		return full, err
	}
	full.Namespace = cmp.Or(full.Namespace, defaultNamespace)
	full.Timeout = cmp.Or(full.Timeout, defaultTimeout)
	full.MaxTries = cmp.Or(full.MaxTries, defaultMaxTries)
	full.MaxWaiting = cmp.Or(full.MaxWaiting, defaultMaxWaiting)
	full.MaxConns = cmp.Or(full.MaxConns, defaultMaxConns)
	return full, nil
}

func (o *Options) validate() error {
	invalid := func(field string, value any, accepted string) error {
		return fmt.Errorf("memcachedstore: %w: %s is %v; must be %s", headgate.ErrInvalidPolicy, field, value, accepted)
	}
	switch {
	case len(o.Namespace) > maxNamespace:
		return invalid("Namespace", fmt.Sprintf("%d bytes long", len(o.Namespace)), "at most 64 bytes")
	case o.Timeout < 0:
		return invalid("Timeout", o.Timeout, "0 (1s) or more")
	case o.MaxTries < 0:
		return invalid("MaxTries", o.MaxTries, "0 (32) or more")
	case o.MaxWaiting < 0:
		return invalid("MaxWaiting", o.MaxWaiting, "0 (10,000) or more")
	case o.MaxConns < 0:
		return invalid("MaxConns", o.MaxConns, "0 (64) or more")
	}
	return nil
}
