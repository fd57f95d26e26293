// Package httpfields tells HTTP clients what a decision means for them, in header fields: the IETF draft of today, its earlier
// forms, and the X-RateLimit families. It knows limits and decisions, and nothing of requests, keys or stores.
package httpfields

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// Dialects are sent together; none means [IETF] alone. [Off] stands alone.
	Dialects []Dialect
	// Every has RateLimit tell of every limit, not only of the tightest. Only [IETF] can.
	AllLimits bool
	// When says on which answers the fields are sent.
	When When
	// Expose adds the names of the fields to Access-Control-Expose-Headers, so that scripts of other origins can read them.
	Expose bool
}

// Writer writes the fields. It is made with [New] and may be used concurrently.
type Writer struct {
	ietf, draft07, draft06, draft03 bool
	x                               xForm
	github                          bool
	every                           bool
	when                            When
	varying                         int      // values that are written anew for each answer, beside Retry-After and further items
	expose                          []string // Access-Control-Expose-Headers; nil if that is not wanted. Not to be changed.
}

// xForm is what X-RateLimit-Reset counts from.
type xForm uint8

const (
	noX xForm = iota
	fromNow
	fromEpoch
)

// New makes a writer. It refuses unknown dialects, the same one twice, and combinations that contradict each other: a field's
// name has one form. opts may be nil, and is not retained.
func New(opts *Options) (*Writer, error) {
	opts = cmp.Or(opts, &Options{})
	dialects, err := named(opts.Dialects)
	if err != nil {
		return nil, err
	}
	if err := contradiction(dialects); err != nil {
		return nil, err
	}
	w := &Writer{every: opts.AllLimits, when: opts.When}
	switch w.when {
	case "":
		w.when = Always
	case Always, NearLimit, OnDenial:
	default:
		return nil, fmt.Errorf("%w: When is %.40q; accepted are always, near and denied", ErrInvalidOptions, string(w.when))
	}
	for _, d := range dialects {
		w.speak(d)
	}
	if w.every && !w.ietf {
		return nil, fmt.Errorf("%w: Every needs the dialect ietf: no other can tell of several limits", ErrInvalidOptions)
	}
	if opts.Expose {
		w.expose = []string{exposed(dialects)}
	}
	return w, nil
}

// NeedsTime reports whether [Writer.Write] reads its instant: only times since 1970 need one.
func (w *Writer) NeedsTime() bool { return w.x == fromEpoch }

// names are the fields of each dialect, as they are spelt in the documents they come from. Those of one form may be shared.
var names = map[Dialect][]string{
	IETF:            {"RateLimit-Policy", "RateLimit"},
	Draft07:         {"RateLimit-Policy", "RateLimit"},
	Draft06:         {"RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"},
	Draft03:         {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"},
	XRateLimit:      {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"},
	XRateLimitEpoch: {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"},
	GitHub: {
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Used", "X-RateLimit-Resource",
	},
	Off: {},
}

// contradictions are the dialects that write one field in two forms.
var contradictions = []struct {
	a, b  Dialect
	field string
}{
	{IETF, Draft07, "RateLimit"},
	{IETF, Draft06, "RateLimit-Policy"},
	{Draft06, Draft03, "RateLimit-Limit"},
	{XRateLimit, XRateLimitEpoch, "X-RateLimit-Reset"},
	{XRateLimit, GitHub, "X-RateLimit-Reset"},
}

// named are the dialects without zero values and doubles.
func named(dialects []Dialect) ([]Dialect, error) {
	if len(dialects) == 0 {
		return []Dialect{IETF}, nil
	}
	list := make([]Dialect, 0, len(dialects))
	for _, d := range dialects {
		d = cmp.Or(d, IETF)
		if _, known := names[d]; !known {
			return nil, fmt.Errorf("%w: unknown dialect %.40q; accepted are ietf, draft-07, draft-06, draft-03, x-ratelimit, "+
				"x-ratelimit-epoch, github and off", ErrInvalidOptions, string(d))
		}
		if slices.Contains(list, d) {
			return nil, fmt.Errorf("%w: the dialect %s is there twice", ErrInvalidOptions, d)
		}
		list = append(list, d)
	}
	return list, nil
}

func contradiction(dialects []Dialect) error {
	if len(dialects) > 1 && slices.Contains(dialects, Off) {
		return fmt.Errorf("%w: the dialect off stands alone", ErrInvalidOptions)
	}
	for _, c := range contradictions {
		if slices.Contains(dialects, c.a) && slices.Contains(dialects, c.b) {
			return fmt.Errorf("%w: the dialects %s and %s write %s in different forms; choose one of them",
				ErrInvalidOptions, c.a, c.b, c.field)
		}
	}
	return nil
}

// speak adds a dialect.
func (w *Writer) speak(d Dialect) {
	switch d {
	case IETF:
		w.ietf, w.varying = true, w.varying+1
	case Draft07:
		w.draft07, w.varying = true, w.varying+1
	case Draft06:
		w.draft06, w.varying = true, w.varying+2
	case Draft03:
		w.draft03, w.varying = true, w.varying+2
	case XRateLimit:
		w.x, w.varying = fromNow, w.varying+2
	case XRateLimitEpoch:
		w.x, w.varying = fromEpoch, w.varying+2
	case GitHub:
		w.x, w.github, w.varying = fromEpoch, true, w.varying+3
	}
}

// exposed is the list of all fields that the dialects send, each once.
func exposed(dialects []Dialect) string {
	var list []string
	for _, d := range dialects {
		for _, name := range names[d] {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return strings.Join(append(list, "Retry-After"), ", ")
}
