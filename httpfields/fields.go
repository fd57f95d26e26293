// Package httpfields writes rate limit header fields of HTTP responses: the fields of
// the current IETF draft, of its earlier versions, and of the X-RateLimit families. It
// depends only on limits and decisions, not on requests, keys or stores.
package httpfields

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Dialect names a set of header fields. The zero value means [IETF].
type Dialect string

// The dialects. See docs/reference/http-middleware.md for the fields of each dialect
// and the responses that have them.
const (
	// IETF sends RateLimit-Policy and RateLimit as in
	// draft-ietf-httpapi-ratelimit-headers-11.
	IETF Dialect = "ietf"
	// Draft07 sends RateLimit-Policy, and RateLimit as one dictionary.
	Draft07 Dialect = "draft-07"
	// Draft06 sends RateLimit-Policy, RateLimit-Limit, RateLimit-Remaining and
	// RateLimit-Reset.
	Draft06 Dialect = "draft-06"
	// Draft03 sends RateLimit-Limit (with the policies in its value),
	// RateLimit-Remaining and RateLimit-Reset.
	Draft03 Dialect = "draft-03"
	// XRateLimit sends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	// The reset is the number of seconds from now.
	XRateLimit Dialect = "x-ratelimit"
	// XRateLimitEpoch is like XRateLimit, but the reset is the number of seconds since
	// 1970.
	XRateLimitEpoch Dialect = "x-ratelimit-epoch"
	// GitHub is like XRateLimitEpoch, and also sends X-RateLimit-Used and
	// X-RateLimit-Resource.
	GitHub Dialect = "github"
	// OpenAI sends the fields of the OpenAI API: for requests and for tokens,
	// x-ratelimit-limit-requests, x-ratelimit-remaining-requests and
	// x-ratelimit-reset-requests, which is a duration such as 6m0s; see [Limit].Unit.
	OpenAI Dialect = "openai"
	// Anthropic sends the fields of the Anthropic API: for requests and for tokens,
	// anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining and
	// anthropic-ratelimit-requests-reset, which is a time; see [Limit].Unit.
	Anthropic Dialect = "anthropic"
	// Off sends no fields, except for Retry-After and Cache-Control on a denial.
	Off Dialect = "off"
)

// ErrInvalidOptions is matched by every error of [New].
var ErrInvalidOptions = errors.New("httpfields: invalid options")

// When selects the responses that have the rate limit fields. Every denial has the
// fields.
type When string

// The values of [When]. Always selects all responses; the zero value means the same.
const (
	Always    When = "always"
	NearLimit When = "near"   // denials, and responses after which at most a tenth of some limit remains
	OnDenial  When = "denied" // denials only
)

// Options are the settings of a writer. A field with the zero value has the default
// given in its comment; nil options select all defaults.
type Options struct {
	// Dialects are the dialects that each response uses, all of them together. Empty
	// means [IETF]. [Off] cannot be combined with other dialects.
	Dialects []Dialect
	// AllLimits lists every limit in RateLimit, instead of only the limit with the
	// fewest remaining units. It requires the dialect [IETF].
	AllLimits bool
	// When selects the responses that have the fields. Empty means [Always].
	When When
	// Expose adds the names of the fields to Access-Control-Expose-Headers, so that
	// browser scripts from other origins can read the fields.
	Expose bool
}

// Writer writes the header fields of responses. Create it with [New]. It may be used
// concurrently.
type Writer struct {
	ietf, draft07, draft06, draft03 bool
	xReset                          resetForm
	github                          bool
	openAI, anthropic               bool
	allLimits                       bool
	when                            When
	// number of values that differ between responses, not counting Retry-After
	variableValues int
	// value of Access-Control-Expose-Headers, nil if not sent; must not be modified
	expose []string
}

// resetForm is the form of X-RateLimit-Reset: not sent, seconds from now, or seconds
// since 1970.
type resetForm uint8

const (
	resetNone resetForm = iota
	resetDelta
	resetEpoch
)

// New returns a writer. It returns an error for an unknown or duplicate dialect, for
// dialects that write the same field in different forms, and for other invalid options.
// opts may be nil and is not retained.
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

// NeedsTime reports whether [Writer.Write] uses its parameter now. It does only for
// dialects with times, such as [GitHub] and [Anthropic].
func (w *Writer) NeedsTime() bool { return w.xReset == resetEpoch || w.anthropic }

// fieldNames lists the fields of each dialect, spelled as in the specifications. Two
// dialects may share a field if both write the field in the same form.
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
	OpenAI:    namesOfUnits(openAIFields),
	Anthropic: namesOfUnits(anthropicFields),
	Off:       {},
}

// conflicts lists pairs of dialects that write the same field in different forms.
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

// normalizeDialects replaces zero values in dialects with defaults. It returns an error
// for an unknown or duplicate dialect.
func normalizeDialects(dialects []Dialect) ([]Dialect, error) {
	if len(dialects) == 0 {
		return []Dialect{IETF}, nil
	}
	list := make([]Dialect, 0, len(dialects))
	for _, d := range dialects {
		d = cmp.Or(d, IETF)
		if _, known := fieldNames[d]; !known {
			return nil, fmt.Errorf("%w: unknown dialect %.40q; must be ietf, draft-07, draft-06, draft-03, x-ratelimit, "+
				"x-ratelimit-epoch, github, openai, anthropic or off", ErrInvalidOptions, string(d))
		}
		if slices.Contains(list, d) {
			return nil, fmt.Errorf("%w: duplicate dialect %s; list it once", ErrInvalidOptions, d)
		}
		list = append(list, d)
	}
	return list, nil
}

// checkConflicts returns an error if the dialects cannot be used together.
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

// addDialect configures the writer to send the fields of dialect d.
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
	case OpenAI:
		w.openAI, w.variableValues = true, w.variableValues+2*len(openAIFields)
	case Anthropic:
		w.anthropic, w.variableValues = true, w.variableValues+2*len(anthropicFields)
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
