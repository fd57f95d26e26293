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

// ErrInvalidOptions is matched by the errors of [New] about options. Errors about
// limits match [headgate.ErrInvalidLimit] or [headgate.ErrInvalidPolicy] instead.
// Errors about Options.Client match [clientaddr.ErrInvalidOptions].
var ErrInvalidOptions = errors.New("loginguard: invalid options")

// Options are a guard's settings. A field that is zero has its default; nil
// options mean all defaults.
type Options struct {
	// Name identifies the form; guards with different names have separate limits. At
	// most 64 bytes. Empty means “login”.
	Name string
	// Secret is the key of all hashes, at least 16 bytes. All processes that share the
	// store need the same secret, also after a restart. nil means a random secret for
	// this process; its limits and known pairs are then not shared with other processes
	// and are lost on restart. New calls Warn if Secret is nil and the store can be
	// shared.
	Secret []byte
	// Limits configures how many failures are allowed.
	Limits Limits
	// KnownFor is how long a pair of account and address stays known after a success: 1
	// s to 90 · 366 days. The actual time is up to 1/90 shorter. 0 means 90 days.
	KnownFor time.Duration
	// KnownBy is the name of the guard whose known pairs this guard uses; both guards
	// need the same store and secret. Empty means that this guard uses its own known
	// pairs. Set it to “login” for a form without successes, such as one that requests
	// a password reset mail.
	KnownBy string
	// DeviceCookie is the name of a cookie that identifies a browser from which an
	// account has logged in. With the cookie, the browser counts as known for that
	// account from every address. The cookie is set if the handler calls [Succeeded]
	// before it writes the response. Empty means no cookie.
	DeviceCookie string

	// Client configures how the client's address is found. nil trusts no header field.
	Client *clientaddr.Options
	// V6Address is the prefix length, in bits, of a block of IPv6 addresses that counts
	// as one address. V6Subnet is the prefix length of an IPv6 network. Both must be 1
	// to 128, V6Subnet at most V6Address. 0 means 64 and 48. For IPv4 the lengths are
	// always 32 and 24.
	V6Address, V6Subnet int
	// Allow is an allowlist of networks that are not limited.
	Allow []netip.Prefix

	// Fields are the names of the form fields, or of the members of a JSON object, that
	// contain the account. Upper and lower case are equal. nil means username, email
	// and login. A request with two different accounts is rejected with 400, and so is
	// a body or query that is not valid in its format, because other decoders may find
	// an account in it. A body that is neither a form nor JSON is rejected with 415. An
	// empty, non-nil list means that requests have no account.
	Fields []string
	// Account, if not nil, replaces Fields: it returns the account of a request, for
	// example from the session of a one-time code. It may read the body, because it
	// receives a copy. It must use the same decoder as the handler: otherwise clients
	// can send a body in which the two find different accounts. An empty result means no
	// account; the attempt is then charged to its address, its network and Limits.Total
	// only.
	Account func(*http.Request) string
	// Normalize returns the same text for all spellings that your program accepts for
	// one account, and different texts for different accounts: accounts with the same
	// text share limits and known pairs. nil means [Normalize].
	Normalize func(account string) string
	// Outcome returns the outcome of an attempt that the handler did not report with
	// [Failed] or [Succeeded]. nil means [ByStatus] with two restrictions. For each
	// account, at most 20 successes are accepted in a burst, then 20 per hour. A
	// success of a GET, HEAD, OPTIONS or TRACE request does not mark a pair as known.
	Outcome func(status int, header http.Header) Outcome

	// DeniedHandler writes the response to a denied attempt; Retry-After and
	// Cache-Control are already set. The response should be the same for every account.
	// nil means [httplimit.Problem].
	DeniedHandler func(http.ResponseWriter, *http.Request, *httplimit.Denial)
	// ErrorHandler writes the response to an attempt that the store could not decide.
	// nil means [httplimit.Unavailable]: 503.
	ErrorHandler func(http.ResponseWriter, *http.Request, error)
	// OnStoreError is the failure mode while the store is unavailable. The zero value
	// means fail closed. Other modes require package fallback around the store.
	OnStoreError headgate.OnStoreError

	// Observer receives an event with the outcome of every attempt. nil means no
	// observer.
	Observer Observer
	// PlainEvents makes events contain accounts and addresses instead of their hashes.
	PlainEvents bool
	// Warn is called at most once for each likely mistake: a missing secret with a
	// shared store, a handler on which no attempt fails, a success without an account.
	// nil means slog.Warn.
	Warn func(message string)
}

// Outcome is the outcome of an attempt.
type Outcome uint8

// The outcomes of an attempt.
const (
	// Unknown means that nothing shows whether the guess was right. The attempt stays
	// charged.
	Unknown Outcome = iota
	// Failure means that the guess was wrong. The attempt stays charged.
	Failure
	// Success means that the guess was right. The charge is cancelled and the pair
	// becomes known.
	Success
)

// ByStatus returns Success for a status of 200 to 399, Failure for 400 to 499, and
// Unknown for any other status.
func ByStatus(status int, _ http.Header) Outcome {
	switch {
	case status >= 200 && status < 400:
		return Success
	case status >= 400 && status < 500:
		return Failure
	}
	return Unknown
}

// AlwaysFailure returns Failure. Use it for forms without successes, such as one that
// requests a password reset mail and always shows the same response.
func AlwaysFailure(int, http.Header) Outcome { return Failure }

const (
	minSecretBytes = 16
	maxNameBytes   = 64
	knownParts     = 90 // burst of the limit Guard.known, in units
	defaultKnown   = 90 * 24 * time.Hour
	minKnownFor    = time.Second
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

// validate returns an error if an option is invalid. It must be called after
// withDefaults.
func (o Options) validate() error {
	switch {
	case len(o.Name) > maxNameBytes || len(o.KnownBy) > maxNameBytes:
		return fmt.Errorf("%w: Name has %d and KnownBy %d bytes; each must have at most %d",
			ErrInvalidOptions, len(o.Name), len(o.KnownBy), maxNameBytes)
	case o.Secret != nil && len(o.Secret) < minSecretBytes:
		return fmt.Errorf("%w: Secret has %d bytes; must have at least %d random bytes, or be nil",
			ErrInvalidOptions, len(o.Secret), minSecretBytes)
	case o.KnownFor < minKnownFor || o.KnownFor > maxKnownFor:
		return fmt.Errorf("%w: KnownFor is %v; must be %v to %v", ErrInvalidOptions, o.KnownFor, minKnownFor, maxKnownFor)
	case o.V6Address < 1 || o.V6Address > 128 || o.V6Subnet < 1 || o.V6Subnet > o.V6Address:
		return fmt.Errorf("%w: V6Address is %d and V6Subnet is %d; must be 1 to 128, V6Subnet at most V6Address",
			ErrInvalidOptions, o.V6Address, o.V6Subnet)
	case o.DeviceCookie != "" && (&http.Cookie{Name: o.DeviceCookie}).Valid() != nil:
		return fmt.Errorf("%w: DeviceCookie is %.80q; must be a valid cookie name", ErrInvalidOptions, o.DeviceCookie)
	}
	for _, p := range o.Allow {
		if !p.IsValid() {
			return fmt.Errorf("%w: Allow contains an invalid network; use netip.ParsePrefix", ErrInvalidOptions)
		}
		if p.Addr().Is4In6() {
			return fmt.Errorf("%w: Allow contains %s, which matches no address; write it as an IPv4 network", ErrInvalidOptions, p)
		}
	}
	return nil
}
