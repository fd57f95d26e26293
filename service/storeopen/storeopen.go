// Package storeopen turns a store's URL into the store: the one place that knows which stores there are.
package storeopen

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// ErrUnknownStore: a URL that names no store of this build, or one that cannot be read. See [Error].
var ErrUnknownStore = errors.New("storeopen: unknown store")

// Error says what is wrong with a store's URL. It repeats no more of it than the scheme and the parameters' names: a URL can
// hold a password.
type Error struct {
	Scheme string // what stands before the colon
	Reason string
}

// Error names the store and what would be accepted.
func (e *Error) Error() string { return fmt.Sprintf("store %q: %s", e.Scheme, e.Reason) }

// Is reports whether target is [ErrUnknownStore].
func (e *Error) Is(target error) bool { return target == ErrUnknownStore }

// Name is what a log or a health page may call the store of rawURL: its scheme, without address and password.
func Name(rawURL string) string {
	scheme, _, _ := strings.Cut(rawURL, ":")
	scheme, _, _ = strings.Cut(scheme, "?")
	if len(scheme) > 32 || strings.ContainsAny(scheme, "@/") {
		return "?"
	}
	return strings.ToLower(scheme)
}

// Open makes the store that rawURL describes; whoever called closes it. It refuses what it does not know with an [*Error].
//
//	memory, memory://               the embedded store, for a million keys
//	memory://?max_entries=50000     for so many keys
//	memory://?max_bytes=67108864    for so much memory
func Open(rawURL string) (headgate.Store, error) {
	name := Name(rawURL)
	if name != "memory" {
		return nil, &Error{name, "there is memory://, optionally with ?max_entries=N or ?max_bytes=N"}
	}
	opts, err := memoryOptions(rawURL)
	if err != nil {
		return nil, err
	}
	if err := opts.Validate(); err != nil {
		return nil, &Error{name, strings.TrimPrefix(err.Error(), "memstore: ")}
	}
	return memstore.New(opts), nil
}

func memoryOptions(rawURL string) (*memstore.Options, error) {
	opts := &memstore.Options{}
	rest := strings.TrimPrefix(rawURL[len("memory"):], "://")
	if rest == "" {
		return opts, nil
	}
	if rest[0] != '?' {
		return nil, &Error{"memory", "it has no address; write memory:// or memory://?max_entries=N"}
	}
	params, err := url.ParseQuery(rest[1:])
	if err != nil {
		return nil, &Error{"memory", "its parameters cannot be read"}
	}
	for name, values := range params {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 1 || len(values) > 1 {
			return nil, &Error{"memory", fmt.Sprintf("parameter %q takes one whole number from 1", name)}
		}
		switch name {
		case "max_entries":
			opts.MaxEntries = int(n)
		case "max_bytes":
			opts.MaxBytes = n
		default:
			return nil, &Error{"memory", fmt.Sprintf("unknown parameter %q; there are max_entries and max_bytes", name)}
		}
	}
	return opts, nil
}
