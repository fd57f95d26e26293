package memcachedstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// Options are the settings of a store. A field with the zero value has the default
// given in its comment; a nil *Options means all defaults.
type Options struct {
	// Namespace separates programs that use the same servers. Programs with the same
	// namespace share the state of policies that have the same name. It has at most 64
	// bytes; empty means "default".
	Namespace string
	// Timeout is the maximum duration of a call whose context has no deadline. It is
	// also the maximum duration of each wait for a server, even if the context has a
	// deadline. 0 means 1 s. With an existing client, the client's own Timeout limits
	// the waits for a server.
	Timeout time.Duration
	// MaxTries is the maximum number of attempts of one operation. A further attempt is
	// necessary if another process changes the key between the gets and the cas. After
	// the last attempt the operation fails with [headgate.ReasonOverloaded]. 0 means
	// 32.
	MaxTries int
	// MaxWaiting is the maximum number of calls in progress. Any further call fails
	// with [headgate.ReasonOverloaded]. 0 means 10,000.
	MaxWaiting int
	// MaxConns is the maximum number of concurrent operations on each server, and also
	// of concurrent operations on keys of several servers. 0 means 64. Further
	// operations wait. The store opens at most one connection for each of these
	// operations, plus two to each server for writes; batched operations share a
	// connection. With an existing client, all of its servers together count as one
	// server.
	MaxConns int
	// DisableJoin makes every call an operation of its own. By default, calls on a key
	// are joined while an operation on the key is in progress: the next operation
	// decides all of them in the order of arrival. DisableJoin does not change any
	// decision.
	DisableJoin bool
	// OnClockSkew is called when the clock of this process is found to differ by 250 ms
	// or more from the clock of another process that uses the namespace. skew is the
	// least possible difference: positive if this clock is ahead, negative if it is
	// behind. A negative skew can also mean that this clock was set back. If there are
	// only two such processes, one or both of them report a difference; with more, some
	// of them do: see docs/operate/stores.md. OnClockSkew is called at most once a minute
	// for each direction, on a goroutine of the store. It must return fast and must not
	// call Close. If it is nil, nothing is compared.
	//
	// For the comparison the store reads and writes one item, every 1 to 3 s while
	// decisions are made. This may take a connection in addition to MaxConns.
	OnClockSkew func(skew time.Duration)
	// Ephemeral makes the store record the names of all keys that it writes, about 40
	// bytes each, and delete these keys in Close. Use it for a namespace that no other
	// program uses.
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
