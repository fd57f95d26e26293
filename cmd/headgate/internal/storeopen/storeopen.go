// Package storeopen opens stores by URL. No other package depends on all kinds of
// stores.
package storeopen

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// ErrUnknownStore is matched by the error for an invalid URL or an unknown kind of
// store. See [Error].
var ErrUnknownStore = errors.New("storeopen: unknown store")

// Error is the error for an invalid store URL. It contains only the scheme and
// parameter names of the URL, because a URL can contain a password.
type Error struct {
	Scheme string // scheme of the URL
	Reason string
	Err    error // error of the package of the store; may be nil
}

// Error returns the scheme, the reason and the accepted values.
func (e *Error) Error() string { return fmt.Sprintf("store %q: %s", e.Scheme, e.Reason) }

// Is reports whether target is [ErrUnknownStore].
func (e *Error) Is(target error) bool { return target == ErrUnknownStore }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// supportedURLs describes all supported stores.
const supportedURLs = "must be memory://, memory:///folder, redis://host:6379, rediss:// (TLS), redis+sentinel://host:26379/NAME, redis+cluster://host:7000, " +
	"redis+unix:///path or memcached://host:11211"

// DefaultBudget is the default of Options.Budget.
const DefaultBudget = fallback.DefaultBudget

// Options configure the fallback of a network store, which memory stores do not need.
// Zero fields and a nil pointer select the defaults.
type Options struct {
	// Budget is the maximum time that a decision waits for the store; 0 means
	// [DefaultBudget].
	Budget time.Duration
	// Instances is the number of processes that share the store. While the store is
	// unavailable, each process allows its share of the limit of a rule with
	// [headgate.FailLocal]. 0 means that the number is unknown: such rules are invalid.
	Instances int
	// Wrap returns the store that is used in place of a network store; nil means the
	// store itself. The fallback calls the result.
	Wrap func(headgate.Store) headgate.Store
	// Observer receives an event when the store becomes unavailable and when it
	// recovers; may be nil. If it is a [ClockObserver] or a [FolderObserver], it also
	// receives events of clocks or of the folder.
	Observer headgate.StoreObserver
	// Volatile makes a memory store ignore its folder: it is empty, and nothing is saved.
	// It is for commands that check a configuration while a service uses the folder.
	Volatile bool
}

// ClockObserver receives events of the clocks that decide.
type ClockObserver interface {
	// ObserveClockSetBack is called when the clock of a Redis server went back; see
	// [redisstore.Options].
	ObserveClockSetBack(back time.Duration)
	// ObserveClockSkew is called when the local clock differs from the clock of another
	// process that uses the same memcached servers; see [memcachedstore.Options].
	ObserveClockSkew(skew time.Duration)
}

// Name returns the store's name for logs and health pages: the scheme of rawURL,
// without address and password.
func Name(rawURL string) string {
	scheme, _, _ := strings.Cut(rawURL, ":")
	scheme, _, _ = strings.Cut(scheme, "?")
	if len(scheme) > 32 || strings.ContainsAny(scheme, "@/") {
		return "?"
	}
	return strings.ToLower(scheme)
}

// Networked reports whether the store of rawURL is accessed over a network.
func Networked(rawURL string) bool { return Name(rawURL) != memory }

// Open returns the store of rawURL, which the caller must close. It does no I/O, except
// for a memory store with a folder: then it reads the state. The error is an [*Error].
// opts may be nil.
//
//	memory, memory://               in memory, for a million keys
//	memory://?max_entries=50000     for 50,000 keys
//	memory://?max_bytes=67108864    for 64 MiB
//	memory:///folder?sync=100ms     with the state saved in a folder
//	redis://user:password@host/0    and related schemes, see [redisstore.Open]
//	memcached://host:11211,host     all servers, in the same order in every instance
//	memcached:///run/memcached.sock over a Unix socket
//
// Parameters of memcached: namespace, timeout, max_conns, max_waiting, max_tries, join.
//
// A network store is wrapped in a store of package fallback, and that one in a
// [*lease.Store]. Rules without leases are passed to the inner store.
func Open(rawURL string, opts *Options) (headgate.Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	if Name(rawURL) == memory {
		return openMemory(rawURL, opts.Volatile, opts.Observer)
	}
	store, err := openBare(rawURL, "", opts.Observer)
	if err != nil {
		return nil, err
	}
	if opts.Wrap != nil {
		store = opts.Wrap(store)
	}
	fallbackOptions := &fallback.Options{Budget: opts.Budget, Instances: opts.Instances, Observer: opts.Observer}
	if opts.Instances > 0 {
		fallbackOptions.Local = memstore.New(nil)
	}
	wrapped, err := fallback.New(store, fallbackOptions)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	leased, err := lease.New(wrapped, nil)
	if err != nil {
		return nil, errors.Join(err, wrapped.Close())
	}
	return leased, nil
}

// openBare opens a store without a fallback. If scratch is not empty, the store is
// temporary: scratch is its namespace, and its data is removed when it is closed. The
// observer may be nil.
func openBare(rawURL, scratch string, observer headgate.StoreObserver) (headgate.Store, error) {
	switch name := Name(rawURL); {
	case name == memory:
		return openMemory(rawURL, true, nil)
	case name == memcached:
		return openMemcached(rawURL, scratch, observer)
	case strings.HasPrefix(name, "redis"):
		store, err := redisstore.Open(rawURL, redisOptions(scratch, observer))
		if err != nil {
			return nil, &Error{name, reason(err, "redisstore: ", "invalid URL: "), err}
		}
		return store, nil
	default:
		return nil, &Error{name, supportedURLs + suggestURL(rawURL), nil}
	}
}

// suggestURL suggests a URL for a text such as host:6379 that has the default port of
// Redis or memcached, but no scheme. It returns "" for other texts.
func suggestURL(text string) string {
	host, port, err := net.SplitHostPort(text)
	scheme, known := map[string]string{"6379": "redis", "11211": "memcached"}[port]
	if err != nil || !known || strings.ContainsAny(host, "/@?:") {
		return ""
	}
	return "; did you mean " + scheme + "://" + text + "?"
}

// reason returns the text of an error without the prefixes that the text of [Error]
// already contains.
func reason(err error, prefixes ...string) string {
	text := err.Error()
	for _, prefix := range prefixes {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}
