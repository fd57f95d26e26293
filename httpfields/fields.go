// Package httpfields writes rate limit header fields for HTTP responses: those of the
// current IETF draft, those of its earlier versions, and the X-RateLimit families. It
// depends on limits and decisions only, not on requests, keys or stores.
package httpfields

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Dialect is one set of header fields. The zero value means [IETF].
type Dialect string

// The dialects. See docs/http.md for what each of them sends, and when.
const (
	// IETF is RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11.
	IETF Dialect = "ietf"
	// Draft07 is RateLimit-Policy, and RateLimit as one dictionary.
	Draft07 Dialect = "draft-07"
	// Draft06 is RateLimit-Policy and RateLimit-Limit, -Remaining and -Reset.
	Draft06 Dialect = "draft-06"
	// Draft03 is RateLimit-Limit, which includes the policies, -Remaining and -Reset.
	Draft03 Dialect = "draft-03"
	// XRateLimit is X-RateLimit-Limit, -Remaining, and -Reset in seconds from now.
	XRateLimit Dialect = "x-ratelimit"
	// XRateLimitEpoch is XRateLimit with -Reset in seconds since 1970.
	XRateLimitEpoch Dialect = "x-ratelimit-epoch"
	// GitHub is XRateLimitEpoch with -Used and -Resource.
	GitHub Dialect = "github"
	// Off is no field but Retry-After and Cache-Control on a denial.
	Off Dialect = "off"
)

// ErrInvalidOptions is matched by every error of [New].
var ErrInvalidOptions = errors.New("httpfields: invalid options")

// When selects the responses in which the fields are sent. A denial always has them.
type When string

// The responses that have fields. The zero value means [Always].
const (
	Always    When = "always"
	NearLimit When = "near"   // if a tenth or less of a limit remains
	OnDenial  When = "denied" // on denials only
)

// Options are a writer's settings. A field that is zero has its default; nil
// options mean all defaults.
type Options struct {
	// Dialects are the dialects to send, all of them in each response. Empty means
	// [IETF]. [Off] cannot be combined with other dialects.
	Dialects []Dialect
	// AllLimits makes RateLimit list every limit, not only the limit with the fewest
	// remaining units. It requires [IETF].
	AllLimits bool
	// When selects the responses in which the fields are sent.
	When When
	// Expose adds the names of the fields to Access-Control-Expose-Headers, so that
	// scripts of other origins can read them.
	Expose bool
}

// Writer writes the fields. Create it with [New]. It may be used concurrently.
type Writer struct {
	ietf, draft07, draft06, draft03 bool
	xReset                          resetForm
	github                          bool
	allLimits                       bool
	when                            When
	// number of values that differ between responses, without Retry-After
	variableValues int
	// Access-Control-Expose-Headers, nil if not sent; must not be modified
	expose []string
}

// resetForm is the time from which X-RateLimit-Reset counts.
type resetForm uint8

const (
	resetNone resetForm = iota
	resetDelta
	resetEpoch
)

// New returns a writer. It returns an error for an unknown dialect, for a duplicate
// dialect, and for dialects that write the same field in different forms. opts may be
// nil; it is not retained.
func New(opts *Options) (*Writer, error) {
	opts = cmp.Or(opts, &Options{})
	dialects, err := normalizeDialects(opts.Dialects)
	if err != nil {
		return nil, err
	}
	if err := checkConflicts(dialects); err != nil {
		return nil, err
	}
	w := &Writer{allLimits: opts.AllLimits, when: opts.When}
	switch w.when {
	case "":
		w.when = Always
	case Always, NearLimit, OnDenial:
	default:
		return nil, fmt.Errorf("%w: When is %.40q; must be always, near or denied", ErrInvalidOptions, string(w.when))
	}
	for _, d := range dialects {
		w.addDialect(d)
	}
	if w.allLimits && !w.ietf {
		return nil, fmt.Errorf("%w: AllLimits requires the dialect ietf; add it to Dialects", ErrInvalidOptions)
	}
	if opts.Expose {
		w.expose = []string{exposedNames(dialects)}
	}
	return w, nil
}

// NeedsTime reports whether [Writer.Write] uses its parameter now. Only dialects with
// times since 1970 use it.
func (w *Writer) NeedsTime() bool { return w.xReset == resetEpoch }

// fieldNames lists the fields of each dialect, spelt as in their specifications. Two
// dialects may share a field if both write it in the same form.
var fieldNames = map[Dialect][]string{
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

// conflicts lists the pairs of dialects that write a field in different forms.
var conflicts = []struct {
	a, b  Dialect
	field string
}{
	{IETF, Draft07, "RateLimit"},
	{IETF, Draft06, "RateLimit-Policy"},
	{Draft06, Draft03, "RateLimit-Limit"},
	{XRateLimit, XRateLimitEpoch, "X-RateLimit-Reset"},
	{XRateLimit, GitHub, "X-RateLimit-Reset"},
}

// normalizeDialects returns dialects with defaults in place of zero values. It returns
// an error for an unknown or duplicate dialect.
func normalizeDialects(dialects []Dialect) ([]Dialect, error) {
	if len(dialects) == 0 {
		return []Dialect{IETF}, nil
	}
	list := make([]Dialect, 0, len(dialects))
	for _, d := range dialects {
		d = cmp.Or(d, IETF)
		if _, known := fieldNames[d]; !known {
			return nil, fmt.Errorf("%w: unknown dialect %.40q; must be ietf, draft-07, draft-06, draft-03, x-ratelimit, "+
				"x-ratelimit-epoch, github or off", ErrInvalidOptions, string(d))
		}
		if slices.Contains(list, d) {
			return nil, fmt.Errorf("%w: duplicate dialect %s; list it once", ErrInvalidOptions, d)
		}
		list = append(list, d)
	}
	return list, nil
}

// checkConflicts returns an error if dialects cannot be sent together.
func checkConflicts(dialects []Dialect) error {
	if len(dialects) > 1 && slices.Contains(dialects, Off) {
		return fmt.Errorf("%w: the dialect off cannot be combined with other dialects", ErrInvalidOptions)
	}
	for _, c := range conflicts {
		if slices.Contains(dialects, c.a) && slices.Contains(dialects, c.b) {
			return fmt.Errorf("%w: the dialects %s and %s write %s in different forms; choose one of them",
				ErrInvalidOptions, c.a, c.b, c.field)
		}
	}
	return nil
}

// addDialect makes the writer send a dialect.
func (w *Writer) addDialect(d Dialect) {
	switch d {
	case IETF:
		w.ietf, w.variableValues = true, w.variableValues+1
	case Draft07:
		w.draft07, w.variableValues = true, w.variableValues+1
	case Draft06:
		w.draft06, w.variableValues = true, w.variableValues+2
	case Draft03:
		w.draft03, w.variableValues = true, w.variableValues+2
	case XRateLimit:
		w.xReset, w.variableValues = resetDelta, w.variableValues+2
	case XRateLimitEpoch:
		w.xReset, w.variableValues = resetEpoch, w.variableValues+2
	case GitHub:
		w.xReset, w.github, w.variableValues = resetEpoch, true, w.variableValues+3
	}
}

// exposedNames returns the names of all fields that the dialects send, without
// duplicates.
func exposedNames(dialects []Dialect) string {
	var list []string
	for _, d := range dialects {
		for _, name := range fieldNames[d] {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return strings.Join(append(list, "Retry-After"), ", ")
}
