package loginguard

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httplimit"
)

// ErrInvalidOptions is what every error of [New] about its options matches, but for those of limits, which match
// [headgate.ErrInvalidLimit] or [headgate.ErrInvalidPolicy], and of the client's address, [clientaddr.ErrInvalidOptions].
var ErrInvalidOptions = errors.New("loginguard: invalid options")

// Options are a guard's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Name tells forms apart: each has its own state. At most 64 bytes; empty means “login”.
	Name string
	// Secret is the key of all hashes, at least 16 bytes, the same in all processes that share the store, and kept. nil means a
	// random one for this process, and so limits and known pairs of its own; New warns if the store is not memstore's.
	Secret []byte
	// Limits are how many failures there may be.
	Limits Limits
	// KnownFor is how long a pair stays known after a success, up to a 90th part less: 1 s to 90 · 366 days; 0 means 90 days.
	KnownFor time.Duration
	// KnownBy is the name of the guard whose known pairs count here, over the same store and secret; empty means its own. A form
	// on which nobody ever succeeds, such as one that sends a mail to reset a password, takes “login”.
	KnownBy string
	// DeviceCookie is the name of a cookie that makes a browser known for an account, wherever it is: it is set when the handler
	// calls [Succeeded] before it answers. Empty means none.
	DeviceCookie string

	// Client is how the client's address is found; nil trusts no header field.
	Client *clientaddr.Options
	// V6Address and V6Subnet are how many bits of an IPv6 address are one address, and one network: 1 to 128; 0 means 64 and 48.
	// Of IPv4 it is 32 and 24.
	V6Address, V6Subnet int
	// Allow are networks that are not limited at all.
	Allow []netip.Prefix

	// Fields are the form fields, or the members of a JSON object, that hold the account, in any case; nil means username, email and
	// login. A request that names two accounts by them is refused with 400, and a body that is neither form nor JSON with 415. Empty
	// and not nil means that there is no account.
	Fields []string
	// Account finds the account in place of Fields: what the session says for a one-time code, say. It may read the body, of
	// which it is given a copy. Empty means that there is none; such a try is charged to its address and network alone.
	Account func(*http.Request) string
	// Normalize makes one of all ways to write an account that your program takes for the same, and of no others: whoever owns one
	// of them is known as all. nil means [Normalize].
	Normalize func(account string) string
	// Outcome says how a try ended of which the handler did not say so itself. nil means [ByStatus], doubts beyond 20 successes at
	// once, and 20 an hour more, of one account, and nobody who is known by a GET, HEAD or OPTIONS.
	Outcome func(status int, header http.Header) Outcome

	// Denied answers a try that is denied; Retry-After and Cache-Control are set already. It should show the same for every
	// account. nil means [httplimit.Problem].
	DeniedHandler func(http.ResponseWriter, *http.Request, *httplimit.Denial)
	// Undecided answers a try for which the store could not decide. nil means [httplimit.Unavailable]: 503.
	ErrorHandler func(http.ResponseWriter, *http.Request, error)
	// OnStoreError is what holds while the store cannot decide; the zero value means that nobody gets in. Others need package
	// fallback around the store.
	OnStoreError headgate.OnStoreError

	// Observer hears what became of every try; nil means nobody does.
	Observer Observer
	// Clear has events name accounts and addresses as they are, not by hashes.
	PlainEvents bool
	// Warn is told once what is likely to be wrong: a secret that is missing, a handler on which nothing fails, a success for which
	// no account was found. nil means slog.Warn.
	Warn func(message string)
}

// Outcome is how a try ended.
type Outcome uint8

// The outcomes of a try.
const (
	Unknown Outcome = iota // nothing was said about the guess: it stays charged
	Failure                // the guess was wrong: it stays charged
	Success                // the guess was right: it is given back, and the pair is known from now on
)

// ByStatus takes a status of 200 to 399 for a success, 400 to 499 for a failure, and anything else for neither.
func ByStatus(status int, _ http.Header) Outcome {
	switch {
	case status >= 200 && status < 400:
		return Success
	case status >= 400 && status < 500:
		return Failure
	}
	return Unknown
}

// EveryTry takes every answer for a failure: for forms on which nobody succeeds, such as one that sends a mail to reset a
// password and always says the same.
func AlwaysFailure(int, http.Header) Outcome { return Failure }

const (
	minSecretBytes  = 16 // bytes
	maxNameBytes     = 64 // bytes
	knownParts   = 90 // see Guard.known
	defaultKnown = 90 * 24 * time.Hour
	minKnownFor   = time.Second
	maxKnownFor    = knownParts * headgate.MaxPeriod
)

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "login")
	o.KnownBy = cmp.Or(o.KnownBy, o.Name)
	o.KnownFor = cmp.Or(o.KnownFor, defaultKnown)
	o.V6Address = cmp.Or(o.V6Address, 64)
	o.V6Subnet = cmp.Or(o.V6Subnet, 48)
	if o.Fields == nil {
		o.Fields = []string{"username", "email", "login"}
	}
	if o.Normalize == nil {
		o.Normalize = Normalize
	}
	if o.DeniedHandler == nil {
		o.DeniedHandler = httplimit.Problem
	}
	if o.ErrorHandler == nil {
		o.ErrorHandler = httplimit.Unavailable
	}
	if o.Warn == nil {
		o.Warn = func(message string) { slog.Warn(message) }
	}
	o.Limits = o.Limits.withDefaults()
	return o
}

// validate reports what cannot work; the defaults are filled in.
func (o Options) validate() error {
	switch {
	case len(o.Name) > maxNameBytes || len(o.KnownBy) > maxNameBytes:
		return fmt.Errorf("%w: Name and KnownBy have %d and %d bytes; must be at most %d",
			ErrInvalidOptions, len(o.Name), len(o.KnownBy), maxNameBytes)
	case o.Secret != nil && len(o.Secret) < minSecretBytes:
		return fmt.Errorf("%w: Secret has %d bytes; must be at least %d random ones, or nil",
			ErrInvalidOptions, len(o.Secret), minSecretBytes)
	case o.KnownFor < minKnownFor || o.KnownFor > maxKnownFor:
		return fmt.Errorf("%w: KnownFor is %v; must be %v to %v", ErrInvalidOptions, o.KnownFor, minKnownFor, maxKnownFor)
	case o.V6Address < 1 || o.V6Address > 128 || o.V6Subnet < 1 || o.V6Subnet > o.V6Address:
		return fmt.Errorf("%w: V6Address is %d and V6Subnet %d bits; must be 1 to 128, the network not the longer one",
			ErrInvalidOptions, o.V6Address, o.V6Subnet)
	case o.DeviceCookie != "" && (&http.Cookie{Name: o.DeviceCookie}).Valid() != nil:
		return fmt.Errorf("%w: DeviceCookie is %.80q, which cannot be a cookie's name", ErrInvalidOptions, o.DeviceCookie)
	}
	for _, p := range o.Allow {
		if !p.IsValid() {
			return fmt.Errorf("%w: Allow holds a network that is not valid; netip.ParsePrefix makes them", ErrInvalidOptions)
		}
		if p.Addr().Is4In6() {
			return fmt.Errorf("%w: Allow holds %s, which no address is in: write it as an IPv4 network", ErrInvalidOptions, p)
		}
	}
	return nil
}
