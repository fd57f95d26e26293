package memcachedstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// Options are a store's settings. The zero value of each field is its default; nil means all defaults. None of the switches
// changes an answer.
type Options struct {
	// Namespace tells programs on the same servers apart: those with the same one share the state of policies with the same name.
	// At most 64 bytes; empty means "default".
	Namespace string
	// Timeout bounds a call whose context has no deadline of its own, and each wait for a server, also of calls that have one; 0
	// means 1 s. (Over a client that the program already holds, its own Timeout bounds the waits.)
	Timeout time.Duration
	// MaxTries is how often one operation is tried when other processes keep changing the key between its gets and its cas; after
	// that the answer is [headgate.ReasonOverloaded]. 0 means 32.
	MaxTries int
	// MaxWaiting is how many callers may be under way; one more is answered with [headgate.ReasonOverloaded]. 0 means 10,000.
	MaxWaiting int
	// MaxConns is how many operations go on at once with each server, and as many with several servers at once. 0 means 64. There are
	// at most as many connections, and two to write on; fewer where operations go together. Callers beyond that wait for their turn.
	// Over a client that the program already holds, all its servers count as one.
	MaxConns int
	// DisableJoin makes every call an operation of its own. By default callers of one key are joined while an operation on it is
	// under way: the next one decides for all of them, in the order in which they came.
	DisableJoin bool
	// Ephemeral remembers the names of all keys that were written, some 40 bytes each, and deletes them when the store is closed:
	// for a namespace that nobody else uses.
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
	wrong := func(what string, value any, accepted string) error {
		return fmt.Errorf("memcachedstore: %w: %s is %v; accepted are %s", headgate.ErrInvalidPolicy, what, value, accepted)
	}
	switch {
	case len(o.Namespace) > maxNamespace:
		return wrong("Namespace", fmt.Sprintf("%d bytes long", len(o.Namespace)), "at most 64 bytes")
	case o.Timeout < 0:
		return wrong("Timeout", o.Timeout, "times above 0, and 0 for 1 s")
	case o.MaxTries < 0:
		return wrong("MaxTries", o.MaxTries, "whole numbers from 1, and 0 for 32")
	case o.MaxWaiting < 0:
		return wrong("MaxWaiting", o.MaxWaiting, "whole numbers from 1, and 0 for 10,000")
	case o.MaxConns < 0:
		return wrong("MaxConns", o.MaxConns, "whole numbers from 1, and 0 for 64")
	}
	return nil
}
