package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// scalarKind is the kind of YAML scalar in which the values of a leaf are written.
type scalarKind string

const (
	kindString scalarKind = "a string"
	kindInt    scalarKind = "a whole number"
	kindBool   scalarKind = "true or false"
)

// leaf defines how the values of one Go type are parsed and formatted, and how the JSON
// Schema describes them.
type leaf struct {
	kind scalarKind
	// pattern is a regular expression that matches every accepted text. It may also
	// match texts that parse rejects. It is empty if all texts are accepted or if the
	// tags list the accepted values.
	pattern     string
	description string // description of the accepted values
	parse       func(string) (any, error)
	format      func(any) string
	example     string
	suggestion  string // format of the value that a bare number most likely means, such as %s/s
}

// limitPattern matches all texts that headgate.ParseLimit parses. Words are
// case-insensitive.
var limitPattern = `^[ \t]*[0-9]+[ \t]*(` + anyCase(`concurrent`) + `|(/[ \t]*|` + anyCase(`per`) + `[ \t]+)(([0-9]+[ \t]*)?` +
	`(us|ms|s|m|h|d|w|` + anyCase(`(micro|milli)?seconds?|secs?|min(ute)?s?|(hour|day|week)s?`) + `)` +
	`([ \t]+(` + anyCase(`burst|queue`) + `)[ \t]+[0-9]+)?|` + calendarPattern + `))[ \t]*$`

// calendarPattern matches the windows of a calendar, after the slash of a limit.
var calendarPattern = anyCase(`(hour|day|week|month|quarter|year)`) +
	`([ \t]+` + anyCase(`in`) + `[ \t]+[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*)?` +
	`([ \t]+` + anyCase(`from`) + `[ \t]+([0-9]{1,2}(:[0-9]{2})?|` + anyCase(`(mon|tues|wednes|thurs|fri|satur|sun)day`) + `))?`

// anyCase returns a pattern in which each lower-case letter also matches its upper-case
// form.
func anyCase(pattern string) string {
	return regexp.MustCompile(`[a-z]`).ReplaceAllStringFunc(pattern, func(letter string) string {
		return "[" + strings.ToUpper(letter) + letter + "]"
	})
}

// leaves maps every Go type of the format that is written as a scalar to its leaf.
var leaves = map[reflect.Type]*leaf{
	reflect.TypeFor[string](): {kind: kindString, pattern: `.`, description: "a name", parse: parser(func(s string) (string, error) { return s, nil })},
	reflect.TypeFor[int]():    {kind: kindInt, pattern: `^-?[0-9]{1,18}$`, description: "a whole number", parse: parser(strconv.Atoi)},
	reflect.TypeFor[bool]():   {kind: kindBool, pattern: `^(true|True|TRUE|false|False|FALSE)$`, description: "true or false", parse: parser(parseBool)},
	reflect.TypeFor[time.Duration](): {
		kind: kindString, pattern: `^([0-9]{1,15}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$`, description: "a duration such as 5s or 1m30s",
		parse: parser(time.ParseDuration), format: func(v any) string { return formatDuration(v.(time.Duration)) }, example: "5s", suggestion: "%ss",
	},
	reflect.TypeFor[headgate.Limit](): {
		kind: kindString, pattern: limitPattern + `|^[ \t]*` + anyCase(`unlimited`) + `[ \t]*$`,
		description: "a limit such as 10/s or 5/15m burst 20", parse: parser(headgate.ParsePolicyLimit), example: "10/s burst 20", suggestion: "%s/s",
	},
	reflect.TypeFor[headgate.OnStoreError](): {kind: kindString, parse: parser(func(s string) (headgate.OnStoreError, error) { return headgate.OnStoreError(s), nil })},
	reflect.TypeFor[headgate.Algorithm]():    {kind: kindString, parse: parser(func(s string) (headgate.Algorithm, error) { return headgate.Algorithm(s), nil })},
	reflect.TypeFor[engine.Enforcement]():    {kind: kindString, parse: parser(func(s string) (engine.Enforcement, error) { return engine.Enforcement(s), nil })},
	reflect.TypeFor[engine.Percent](): {
		kind: kindString, pattern: `^([0-9]{1,2}(\.[0-9]{1,4})?|100(\.0{1,4})?)%$`, description: "a percentage from 0% to 100%",
		parse: parser(engine.ParsePercent), example: "25%", suggestion: "%s%%",
	},
	reflect.TypeFor[engine.LeaseShare](): {
		kind: kindString, pattern: `^([1-9]|[1-4][0-9]|50)%$`, description: "a whole percentage from 1% to 50%",
		parse: parser(engine.ParseLeaseShare), example: "10%", suggestion: "%s%%",
	},
	reflect.TypeFor[routing.Key](): {
		kind: kindString, description: "ip, header:NAME, method, host or path; join parts with +, separate alternatives by commas",
		pattern: `^[ \t]*` + keyPart + `([ \t]*[+,][ \t]*` + keyPart + `)*[ \t]*$`,
		parse:   parser(routing.ParseKey), example: "header:X-API-Key, ip",
	},
	reflect.TypeFor[routing.Host](): {
		kind: kindString, pattern: `^[!-.0-9:;<-~]+$`, description: "a host name or *.example.com", parse: parser(routing.ParseHost), example: "*.example.com",
		format: unlessZero[routing.Host],
	},
	reflect.TypeFor[routing.Path](): {
		kind: kindString, pattern: `^/[^?#%\\;]*$`, description: "a path that begins with /", parse: parser(routing.ParsePath), example: "/api/**",
		format: unlessZero[routing.Path],
	},
	reflect.TypeFor[routing.Pattern](): {
		kind: kindString, pattern: `^[^\x00-\x1f\x7f]*$`, description: "a text, in which * matches any text",
		parse: parser(routing.ParsePattern), example: "pro",
	},
	reflect.TypeFor[HeaderName](): {
		kind: kindString, pattern: `^[!#$%&'*+.^_|~0-9A-Za-z\x60-]+$`, description: "the name of a header field", parse: parser(parseHeaderName),
		example: "X-Plan",
	},
	reflect.TypeFor[Method](): {
		kind: kindString, pattern: `^[A-Za-z-]{1,32}$`, description: "an HTTP method such as GET", parse: parser(parseMethod), example: "POST",
	},
	reflect.TypeFor[HostName](): {
		kind: kindString, pattern: `^(\*|[0-9A-Za-z._~-]+)$`, description: "a host name without a port, or *", parse: parser(parseHostName),
		example: "headgate.internal",
	},
	reflect.TypeFor[Network](): {
		kind: kindString, pattern: `^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$`, description: "a network such as 10.0.0.0/8 or an IP address", parse: parser(parseNetwork),
		example: "10.0.0.0/8",
	},
	reflect.TypeFor[Address](): {
		kind: kindString, pattern: `^(off|(\[[0-9A-Fa-f:.]+(%[0-9A-Za-z.]+)?\]|[^\s:\[\]/]*):[0-9]{1,5})$`, description: "host:port, such as 127.0.0.1:8080, or off",
		parse: parser(parseAddress), example: "127.0.0.1:8080", suggestion: "127.0.0.1:%s",
	},
	reflect.TypeFor[Endpoint](): {
		kind: kindString, pattern: `^(off|unix:[^\x00]+|(\[[0-9A-Fa-f:.]+(%[0-9A-Za-z.]+)?\]|[^\s:\[\]/]*):[0-9]{1,5})$`,
		description: "host:port, such as 127.0.0.1:6380, unix:/path, or off", parse: parser(parseEndpoint), example: "127.0.0.1:6380", suggestion: "127.0.0.1:%s",
	},
	reflect.TypeFor[AdminScope](): {
		kind: kindString, pattern: `^(read|write)$`, description: "a scope: read or write", parse: parser(parseAdminScope), example: "read",
	},
	reflect.TypeFor[HTTPScope](): {
		kind: kindString, pattern: `^(check|refund|reset|admin)$`, description: "a scope: check, refund, reset or admin", parse: parser(parseHTTPScope),
		example: "check",
	},
	reflect.TypeFor[Secret](): {kind: kindString, pattern: `.`, description: "a password", parse: parser(func(s string) (Secret, error) { return Secret(s), nil })},
	reflect.TypeFor[StoreURL](): {
		kind: kindString, pattern: `^[A-Za-z][A-Za-z0-9+]*([:?][^\s]*)?$`, description: "a store URL such as redis://127.0.0.1:6379",
		parse: parser(func(s string) (StoreURL, error) { return StoreURL(s), nil }), example: "redis://127.0.0.1:6379",
	},
	reflect.TypeFor[URL](): {
		kind: kindString, pattern: `^https?://[^\s/?#@]+(/[^\s?#]*)?$`, description: "a URL such as http://127.0.0.1:4318", parse: parser(parseURL),
		example: "http://127.0.0.1:4318", suggestion: "http://127.0.0.1:%s",
	},
	reflect.TypeFor[Target](): {
		kind: kindString, pattern: `^(unix:[^\x00]+|(dns:///)?(\[[0-9A-Fa-f:.]+(%[0-9A-Za-z.]+)?\]|[^\s:\[\]/]+):[0-9]{1,5})$`,
		description: "host:port, such as 127.0.0.1:18000, or unix:/path", parse: parser(parseTarget), example: "127.0.0.1:18000", suggestion: "127.0.0.1:%s",
	},
	reflect.TypeFor[Label](): {
		kind: kindString, pattern: `^[^=\x00-\x1f\x7f]+=[^\x00-\x1f\x7f]*$`, description: "name=value", parse: parser(func(s string) (Label, error) { return Label(s), nil }),
		example: "zone=a",
	},
	reflect.TypeFor[Header](): {
		kind: kindString, pattern: `^[0-9A-Za-z_.-]+:[ -~]*$`, description: "a header field (name: value)",
		parse: parser(func(s string) (Header, error) { return Header(s), nil }), example: "x-zone: a",
	},
	reflect.TypeFor[ChargeMode](): {kind: kindString, parse: parser(func(s string) (ChargeMode, error) { return ChargeMode(s), nil })},
	reflect.TypeFor[Path](): {
		kind: kindString, pattern: `^[^\x00]+$`, description: "a file path", parse: parser(func(s string) (Path, error) { return Path(s), nil }),
		format: func(v any) string { return absolute(string(v.(Path))) },
	},
	reflect.TypeFor[Folder](): {
		kind: kindString, pattern: `^[^\x00]+$`, description: "a folder path", parse: parser(func(s string) (Folder, error) { return Folder(s), nil }),
		format: func(v any) string { return absolute(string(v.(Folder))) },
	},
}

const keyPart = `(ip(/[0-9]{1,3})?|header:[ \t]*[!#$%&'*.^_|~0-9A-Za-z\x60-]+|method|host|path)`

// parser converts a typed parse function to the form that a leaf requires.
func parser[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(s string) (any, error) { return parse(s) }
}

// parseBool parses true or false in the forms of YAML and of environment variables.
func parseBool(text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%.40q is not true or false", text)
	}
	return b, nil
}

// formatDuration returns d without trailing zero units: 2m, not 2m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return strings.Replace(s, "h0m", "h", 1)
}

// problem is an error in the text of one value.
type problem struct {
	message string
	offset  int  // offset in the text in bytes; negative if unknown
	shape   bool // whether the JSON Schema rejects the text, too
}

var patterns = func() map[reflect.Type]*regexp.Regexp {
	all := make(map[reflect.Type]*regexp.Regexp)
	for t, l := range leaves {
		if l.pattern != "" {
			all[t] = regexp.MustCompile(l.pattern)
		}
	}
	return all
}()

// parseText parses a text as a value of type t and checks it against the tag.
func parseText(t reflect.Type, tag reflect.StructTag, s string) (reflect.Value, *problem) {
	l := leaves[t]
	if options := optionsOf(tag); options != nil {
		return parseOption(t, options, s)
	}
	shaped := patterns[t].MatchString(s)
	v, err := l.parse(s)
	if err != nil {
		p := parseProblem(l, tag, s, err)
		p.shape = p.shape || !shaped
		return reflect.Value{}, p
	}
	if !shaped {
		return reflect.Value{}, &problem{quoted(t, s) + " is not " + l.description, -1, true}
	}
	if bounds := tag.Get("range"); !inRange(v, bounds) {
		return reflect.Value{}, &problem{rangeError(s, bounds), -1, l.kind == kindInt}
	}
	return reflect.ValueOf(v), nil
}

// optionsOf returns the accepted values that the tag oneof lists, or nil if there is no
// such tag. The list "algorithms" means the names of all algorithms.
func optionsOf(tag reflect.StructTag) []string {
	if list := tag.Get("oneof"); list == "algorithms" {
		return algo.Names()
	} else if list != "" {
		return strings.Fields(list)
	}
	return nil
}

// aliases maps other words for an option to the option, by type.
var aliases = map[reflect.Type]map[string]string{
	reflect.TypeFor[headgate.OnStoreError](): {"fail-open": "open", "fail-closed": "closed"},
}

func parseOption(t reflect.Type, options []string, s string) (reflect.Value, *problem) {
	s = cmp.Or(aliases[t][s], s)
	if !slices.Contains(options, s) {
		message := clip(s) + " is invalid; must be one of " + strings.Join(options, ", ")
		if nearest := suggest.Nearest(s, options); nearest != "" {
			message += fmt.Sprintf("; did you mean %s?", nearest)
		}
		return reflect.Value{}, &problem{message, -1, true}
	}
	v, err := leaves[t].parse(s)
	if err != nil {
		return reflect.Value{}, &problem{err.Error(), -1, false}
	}
	return reflect.ValueOf(v), nil
}

// quoted returns a text in quotes for an error message. It returns no part of a secret.
func quoted(t reflect.Type, s string) string {
	switch t {
	case reflect.TypeFor[StoreURL](), reflect.TypeFor[Secret](), reflect.TypeFor[Header]():
		return "this value"
	}
	return clip(s)
}

// parseProblem converts the error of a leaf's parse function.
func parseProblem(l *leaf, tag reflect.StructTag, s string, err error) *problem {
	if e := (*headgate.SyntaxError)(nil); errors.As(err, &e) {
		return &problem{clip(s) + " is not a limit: " + e.Reason, e.Offset, false}
	}
	if e := (*headgate.LimitError)(nil); errors.As(err, &e) {
		return &problem{limitError(s, e), -1, false}
	}
	if e := (*routing.SyntaxError)(nil); errors.As(err, &e) {
		part := e.Input[e.Offset : e.Offset+e.Length]
		if part == "" {
			return &problem{e.Reason, e.Offset, false}
		}
		return &problem{clip(part) + " " + e.Reason, e.Offset, false}
	}
	bounds := tag.Get("range")
	if l.kind == kindInt && bounds != "" && errors.Is(err, strconv.ErrRange) {
		return &problem{rangeError(shorten(s), bounds), -1, true}
	}
	if l.kind == kindInt || patterns[reflect.TypeFor[time.Duration]()].String() == l.pattern {
		return &problem{clip(s) + " is not " + l.description, -1, false}
	}
	return &problem{err.Error(), -1, false}
}

// limitError returns the message for a limit whose rate, period, burst or queue is out
// of range, or of another kind than the algorithm requires.
func limitError(limit string, e *headgate.LimitError) string {
	if e.Field == "limit" {
		return clip(limit) + " " + e.Bound
	}
	return fmt.Sprintf("%s is out of range: %s is %s; %s", clip(limit), e.Field, e.Value, e.Bound)
}

func rangeError(value, bounds string) string {
	return value + " is out of range; must be " + strings.Replace(bounds, " ", " to ", 1)
}

// inRange reports whether v is within bounds, a text such as “MIN MAX”. Empty bounds
// accept all values.
func inRange(v any, bounds string) bool {
	least, most, ok := strings.Cut(bounds, " ")
	if !ok {
		return true
	}
	switch v := v.(type) {
	case int:
		return mustInt(least) <= v && v <= mustInt(most)
	case time.Duration:
		low, err := time.ParseDuration(least)
		high, err2 := time.ParseDuration(most)
		return err == nil && err2 == nil && low <= v && v <= high
	}
	return true
}

func mustInt(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("config: invalid number in a tag: " + s)
	}
	return n
}

// absolute returns the absolute form of a path, or "" if path is "".
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// unlessZero formats a value. It returns "" for the zero value, which matches
// everything.
func unlessZero[T fmt.Stringer](v any) string {
	if reflect.ValueOf(v).IsZero() {
		return ""
	}
	return v.(T).String()
}

// formatValue returns a value as it is written in a configuration file, or "" if it is
// to be omitted.
func formatValue(v reflect.Value) string {
	if l := leaves[v.Type()]; l.format != nil {
		return l.format(v.Interface())
	}
	return fmt.Sprint(v.Interface())
}
