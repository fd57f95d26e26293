// Package storeopen turns a store's URL into the store: the one place that knows which stores there are.
package storeopen

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// ErrUnknownStore: a URL that names no store of this build, or one that cannot be read. See [Error].
var ErrUnknownStore = errors.New("storeopen: unknown store")

// Error says what is wrong with a store's URL. It repeats no more of it than the scheme and the parameters' names: a URL can
// hold a password.
type Error struct {
	Scheme string // what stands before the colon
	Reason string
	Err    error // what the store's own package said; may be nil
}

// Error names the store and what would be accepted.
func (e *Error) Error() string { return fmt.Sprintf("store %q: %s", e.Scheme, e.Reason) }

// Is reports whether target is [ErrUnknownStore].
func (e *Error) Is(target error) bool { return target == ErrUnknownStore }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// known are the stores that there are.
const known = "there are memory://, redis://host:6379, rediss:// (TLS), redis+sentinel://host:26379/NAME, redis+cluster://host:7000, " +
	"redis+unix:///path and memcached://host:11211"

// DefaultBudget is the longest that a decision waits for a store behind a network, unless [Options] say otherwise.
const DefaultBudget = fallback.DefaultBudget

// Options say what holds while a store that is asked over a network is away; a store in memory never is. The zero value of each
// field is its default; nil means all defaults.
type Options struct {
	// Budget is the longest that a decision waits for the store; 0 means [DefaultBudget].
	Budget time.Duration
	// Instances is how many processes share the store. A rule that says local grants a share of so many of its limit while the
	// store is away. 0 means that it is not known: such rules are then refused.
	Instances int
	// Observer hears when the store goes away and when it is back; nil means nobody does.
	Observer headgate.StoreObserver
}

// Name is what a log or a health page may call the store of rawURL: its scheme, without address and password.
func Name(rawURL string) string {
	scheme, _, _ := strings.Cut(rawURL, ":")
	scheme, _, _ = strings.Cut(scheme, "?")
	if len(scheme) > 32 || strings.ContainsAny(scheme, "@/") {
		return "?"
	}
	return strings.ToLower(scheme)
}

// Networked reports whether the store of rawURL is asked over a network.
func Networked(rawURL string) bool { return Name(rawURL) != memory }

// Open makes the store that rawURL describes; whoever called closes it. It does no I/O. It refuses what it does not know with an
// [*Error]. opts may be nil.
//
//	memory, memory://               the embedded store, for a million keys
//	memory://?max_entries=50000     for so many keys
//	memory://?max_bytes=67108864    for so much memory
//	redis://user:password@host/0    and its relatives, see [redisstore.Open]
//	memcached://host:11211,host     all servers, in the same order everywhere
//	memcached:///run/memcached.sock by a Unix socket
//
// Parameters of memcached: namespace, timeout, max_conns, max_waiting, max_tries, join.
//
// A store that is asked over a network is one of package fallback around it.
func Open(rawURL string, opts *Options) (headgate.Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	store, err := openBare(rawURL, "")
	if err != nil || !Networked(rawURL) {
		return store, err
	}
	around := &fallback.Options{Budget: opts.Budget, Instances: opts.Instances, Observer: opts.Observer}
	if opts.Instances > 0 {
		around.Local = memstore.New(nil)
	}
	wrapped, err := fallback.New(store, around)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return wrapped, nil
}

// openBare opens a store without anything around it. With a scratch namespace it is used there, and what it wrote is removed when
// it is closed.
func openBare(rawURL, scratch string) (headgate.Store, error) {
	switch name := Name(rawURL); {
	case name == memory:
		return openMemory(rawURL)
	case name == memcached:
		return openMemcached(rawURL, scratch)
	case strings.HasPrefix(name, "redis"):
		store, err := redisstore.Open(rawURL, redisOptions(scratch))
		if err != nil {
			return nil, &Error{name, reason(err, "redisstore: ", "invalid URL: "), err}
		}
		return store, nil
	default:
		return nil, &Error{name, known + meantURL(rawURL), nil}
	}
}

// meantURL suggests a scheme for host:port, by the default ports of Redis and memcached; "" for other texts.
func meantURL(text string) string {
	host, port, err := net.SplitHostPort(text)
	scheme, known := map[string]string{"6379": "redis", "11211": "memcached"}[port]
	if err != nil || !known || strings.ContainsAny(host, "/@?:") {
		return ""
	}
	return "; did you mean " + scheme + "://" + text + "?"
}

// reason is an error's text without the words that [Error] says itself.
func reason(err error, prefixes ...string) string {
	text := err.Error()
	for _, prefix := range prefixes {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}
