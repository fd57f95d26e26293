package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
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

// Address is where a door listens: host:port, or off.
type Address string

// Off closes a door in place of an address.
const Off Address = "off"

// Endpoint is where a door listens that can do so on a unix socket, too: host:port, unix:/path, or off.
type Endpoint string

// Socket is the path of the unix socket, if it is one.
func (e Endpoint) Socket() (path string, ok bool) { return strings.CutPrefix(string(e), "unix:") }

// Secret is a password. It is never printed.
type Secret string

// masked stands for a secret.
const masked = "***"

// String stands for the secret, so that no log or message shows it by accident.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// StoreURL is a store's URL. It may hold a password; [StoreURL.Masked] does not.
type StoreURL string

// Folder is a folder's path; in a file it is relative to where the file is.
type Folder string

// Path is a file's path; in a file it is relative to where that is.
type Path string

// Charge is how the descriptors of one of Envoy's requests are charged.
type ChargeMode string

// Network is a block of addresses.
type Network struct{ netip.Prefix }

// Method is a method of HTTP, in capitals.
type Method string

// Masked is the URL without the user, the password and whatever else may be a secret in it.
func (u StoreURL) Masked() string {
	text, query, _ := strings.Cut(string(u), "?")
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			text = scheme + "://***:***@" + rest[i+1:]
		}
	}
	if strings.Contains(query, "@") {
		return text + "?***" // the end of a password with a question mark in it
	}
	var kept []string
	for param := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(param, "=")
		for _, secret := range []string{"pass", "secret", "token", "auth", "user"} {
			if strings.Contains(strings.ToLower(name), secret) {
				param = name + "=***"
			}
		}
		kept = append(kept, param)
	}
	if query == "" {
		return text
	}
	return text + "?" + strings.Join(kept, "&")
}

// String is the masked URL, so that no log or message shows the other one by accident.
func (u StoreURL) String() string { return u.Masked() }

// what is what YAML must have for a leaf.
type what string

const (
	text   what = "text"
	number what = "a whole number"
	truth  what = "true or false"
)

// leaf is how values of one Go type are read, shown, and told to editors.
type leaf struct {
	what    what
	pattern string // which texts are accepted, as far as one can see from their form; empty: all, or what the tags say
	says    string // what the pattern stands for
	parse   func(string) (any, error)
	show    func(any) string
	example string
	meant   string // what a bare number was most likely meant to be: %s/s
}

// limitPattern matches what headgate.ParseLimit can parse. Words are case-insensitive.
var limitPattern = `^[ \t]*[0-9]+[ \t]*(/[ \t]*|` + anyCase(`per`) + `[ \t]+)([0-9]+[ \t]*)?(us|ms|s|m|h|d|w|` +
	anyCase(`(micro|milli)?seconds?|secs?|min(ute)?s?|(hour|day|week)s?`) + `)([ \t]+(` +
	anyCase(`burst|queue`) + `)[ \t]+[0-9]+)?[ \t]*$`

// anyCase makes each lower-case letter of a pattern match its capital too.
func anyCase(pattern string) string {
	return regexp.MustCompile(`[a-z]`).ReplaceAllStringFunc(pattern, func(letter string) string {
		return "[" + strings.ToUpper(letter) + letter + "]"
	})
}

// leaves are all types that are no struct, list or map.
var leaves = map[reflect.Type]*leaf{
	reflect.TypeFor[string](): {what: text, pattern: `.`, says: "a name", parse: as(func(s string) (string, error) { return s, nil })},
	reflect.TypeFor[int]():    {what: number, pattern: `^-?[0-9]{1,18}$`, says: "a whole number", parse: as(strconv.Atoi)},
	reflect.TypeFor[bool]():   {what: truth, pattern: `^(true|True|TRUE|false|False|FALSE)$`, says: "true or false", parse: as(strconv.ParseBool)},
	reflect.TypeFor[time.Duration](): {
		what: text, pattern: `^([0-9]{1,15}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$`, says: "a time such as 5s or 1m30s",
		parse: as(time.ParseDuration), show: func(v any) string { return shortTime(v.(time.Duration)) }, example: "5s", meant: "%ss",
	},
	reflect.TypeFor[headgate.Limit](): {
		what: text, pattern: limitPattern,
		says: "a limit such as 10/s or 5/15m burst 20", parse: as(headgate.ParseLimit), example: "10/s burst 20", meant: "%s/s",
	},
	reflect.TypeFor[headgate.OnStoreError](): {what: text, parse: as(func(s string) (headgate.OnStoreError, error) { return headgate.OnStoreError(s), nil })},
	reflect.TypeFor[headgate.Algorithm]():    {what: text, parse: as(func(s string) (headgate.Algorithm, error) { return headgate.Algorithm(s), nil })},
	reflect.TypeFor[engine.Enforcement]():    {what: text, parse: as(func(s string) (engine.Enforcement, error) { return engine.Enforcement(s), nil })},
	reflect.TypeFor[engine.Percent](): {
		what: text, pattern: `^([0-9]{1,2}(\.[0-9]{1,4})?|100(\.0{1,4})?)%$`, says: "a percentage from 0% to 100%",
		parse: as(engine.ParsePercent), example: "25%", meant: "%s%%",
	},
	reflect.TypeFor[routing.Key](): {
		what: text, says: "ip, header:NAME, method, host or path, joined by + or, as alternatives, by commas",
		pattern: `^[ \t]*` + keyPart + `([ \t]*[+,][ \t]*` + keyPart + `)*[ \t]*$`,
		parse:   as(routing.ParseKey), example: "header:X-API-Key, ip",
	},
	reflect.TypeFor[routing.Host](): {
		what: text, pattern: `^[!-.0-9:;<-~]+$`, says: "a host, or *.example.com", parse: as(routing.ParseHost), example: "*.example.com",
		show: unlessZero[routing.Host],
	},
	reflect.TypeFor[routing.Path](): {
		what: text, pattern: `^/[^?#%\\;]*$`, says: "a path that begins with a slash", parse: as(routing.ParsePath), example: "/api/**",
		show: unlessZero[routing.Path],
	},
	reflect.TypeFor[Method](): {
		what: text, pattern: `^[A-Za-z-]{1,32}$`, says: "a method such as GET", parse: as(parseMethod), example: "POST",
	},
	reflect.TypeFor[Network](): {
		what: text, pattern: `^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$`, says: "a network such as 10.0.0.0/8, or an address", parse: as(parseNetwork),
		example: "10.0.0.0/8",
	},
	reflect.TypeFor[Address](): {
		what: text, pattern: `^(off|(\[[0-9A-Fa-f:.]+(%[0-9A-Za-z.]+)?\]|[^\s:\[\]/]*):[0-9]{1,5})$`, says: "host:port, such as 127.0.0.1:8080, or off",
		parse: as(parseAddress), example: "127.0.0.1:8080", meant: "127.0.0.1:%s",
	},
	reflect.TypeFor[Endpoint](): {
		what: text, pattern: `^(off|unix:[^\x00]+|(\[[0-9A-Fa-f:.]+(%[0-9A-Za-z.]+)?\]|[^\s:\[\]/]*):[0-9]{1,5})$`,
		says: "host:port, such as 127.0.0.1:6380, unix:/path, or off", parse: as(parseEndpoint), example: "127.0.0.1:6380", meant: "127.0.0.1:%s",
	},
	reflect.TypeFor[Secret](): {what: text, pattern: `.`, says: "a password", parse: as(func(s string) (Secret, error) { return Secret(s), nil })},
	reflect.TypeFor[StoreURL](): {
		what: text, pattern: `^[A-Za-z][A-Za-z0-9+]*([:?][^\s]*)?$`, says: "a store's URL, such as redis://127.0.0.1:6379",
		parse: as(func(s string) (StoreURL, error) { return StoreURL(s), nil }), example: "redis://127.0.0.1:6379",
	},
	reflect.TypeFor[Target](): {
		what: text, pattern: `^(unix:[^\x00]+|(dns:///)?(\[[0-9A-Fa-f:.]+(%[0-9A-Za-z.]+)?\]|[^\s:\[\]/]+):[0-9]{1,5})$`,
		says: "host:port, such as 127.0.0.1:18000, or unix:/path", parse: as(parseTarget), example: "127.0.0.1:18000", meant: "127.0.0.1:%s",
	},
	reflect.TypeFor[Label](): {
		what: text, pattern: `^[^=\x00-\x1f\x7f]+=[^\x00-\x1f\x7f]*$`, says: "name=value", parse: as(func(s string) (Label, error) { return Label(s), nil }),
		example: "zone=a",
	},
	reflect.TypeFor[Header](): {
		what: text, pattern: `^[0-9A-Za-z_.-]+:[ -~]*$`, says: "a header field, name: value",
		parse: as(func(s string) (Header, error) { return Header(s), nil }), example: "x-zone: a",
	},
	reflect.TypeFor[ChargeMode](): {what: text, parse: as(func(s string) (ChargeMode, error) { return ChargeMode(s), nil })},
	reflect.TypeFor[Path](): {
		what: text, pattern: `^[^\x00]+$`, says: "a file", parse: as(func(s string) (Path, error) { return Path(s), nil }),
		show: func(v any) string { return absolute(string(v.(Path))) },
	},
	reflect.TypeFor[Folder](): {
		what: text, pattern: `^[^\x00]+$`, says: "a folder", parse: as(func(s string) (Folder, error) { return Folder(s), nil }),
		show: func(v any) string { return absolute(string(v.(Folder))) },
	},
}

const keyPart = `(ip(/[0-9]{1,3})?|header:[ \t]*[!#$%&'*.^_|~0-9A-Za-z\x60-]+|method|host|path)`

// as fits a reader of one type into the table.
func as[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(s string) (any, error) { return parse(s) }
}

func parseMethod(s string) (Method, error) {
	var m routing.Methods
	return Method(strings.ToUpper(s)), m.Add(s)
}

func parseNetwork(s string) (Network, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return Network{netip.PrefixFrom(a, a.BitLen())}, nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return Network{}, fmt.Errorf("%s is no network; write one such as 10.0.0.0/8 or 2001:db8::/32, or an address", clip(s))
	case p.Addr().Is4In6():
		return Network{}, fmt.Errorf("%s is of IPv4 addresses in IPv6; write it as a network of IPv4, such as 10.0.0.0/8", clip(s))
	case p != p.Masked():
		return Network{}, fmt.Errorf("%s has bits behind its length; %s was meant, or %s", clip(s), p.Masked(), p.Addr())
	}
	return Network{p}, nil
}

// String is the network, or its only address.
func (n Network) String() string {
	if n.IsSingleIP() {
		return n.Addr().String()
	}
	return n.Prefix.String()
}

func parseAddress(s string) (Address, error) {
	if Address(s) == Off {
		return Off, nil
	}
	_, port, err := net.SplitHostPort(s)
	if n, err2 := strconv.ParseUint(port, 10, 16); err != nil || err2 != nil || n > 65535 {
		return "", fmt.Errorf("%s is no address; write host:port, such as 127.0.0.1:8080, or off", clip(s))
	}
	return Address(s), nil
}

func parseEndpoint(s string) (Endpoint, error) {
	if path, ok := Endpoint(s).Socket(); ok && path != "" {
		return Endpoint(s), nil
	}
	if _, err := parseAddress(s); err != nil {
		return "", fmt.Errorf("%s is no address; write host:port, such as 127.0.0.1:6380, unix:/path, or off", clip(s))
	}
	return Endpoint(s), nil
}

// shortTime is a time without parts that are zero: 2m, not 2m0s.
func shortTime(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return strings.Replace(s, "h0m", "h", 1)
}

// problem is what is wrong with one text. The offset is where in it, or below 0.
type problem struct {
	message string
	offset  int
	shape   bool
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

// read reads a text as a value of type t, within what the tag accepts.
func read(t reflect.Type, tag reflect.StructTag, s string) (reflect.Value, *problem) {
	l := leaves[t]
	if options := optionsOf(tag); options != nil {
		return readOption(t, options, s)
	}
	shaped := patterns[t].MatchString(s)
	v, err := l.parse(s)
	if err != nil {
		p := describe(l, tag, s, err)
		p.shape = p.shape || !shaped
		return reflect.Value{}, p
	}
	if !shaped {
		return reflect.Value{}, &problem{quoted(t, s) + " is not " + l.says, -1, true}
	}
	if accepted := outside(v, tag.Get("range")); accepted != "" {
		return reflect.Value{}, &problem{s + " is not accepted; accepted: " + accepted, -1, l.what == number}
	}
	return reflect.ValueOf(v), nil
}

// optionsOf returns the values that a tag accepts, or nil if it has no list of them. The list “algorithms” is that of package algo.
func optionsOf(tag reflect.StructTag) []string {
	if list := tag.Get("oneof"); list == "algorithms" {
		return algo.Names()
	} else if list != "" {
		return strings.Fields(list)
	}
	return nil
}

func readOption(t reflect.Type, options []string, s string) (reflect.Value, *problem) {
	if !slices.Contains(options, s) {
		message := clip(s) + " is not one of " + strings.Join(options, ", ")
		if meant := suggest.Nearest(s, options); meant != "" {
			message += fmt.Sprintf("; did you mean %s?", meant)
		}
		return reflect.Value{}, &problem{message, -1, true}
	}
	v, err := leaves[t].parse(s)
	if err != nil {
		return reflect.Value{}, &problem{err.Error(), -1, false}
	}
	return reflect.ValueOf(v), nil
}

// quoted is a text as an error repeats it, unless it may hold a password.
func quoted(t reflect.Type, s string) string {
	if t == reflect.TypeFor[StoreURL]() || t == reflect.TypeFor[Secret]() || t == reflect.TypeFor[Header]() {
		return "what stands here"
	}
	return clip(s)
}

// describe is what is wrong with a text that could not be parsed.
func describe(l *leaf, tag reflect.StructTag, s string, err error) *problem {
	if e := (*headgate.SyntaxError)(nil); errors.As(err, &e) {
		return &problem{clip(s) + " is no limit: " + e.Reason, e.Offset, false}
	}
	if e := (*headgate.LimitError)(nil); errors.As(err, &e) {
		return &problem{outsideOf(s, e), -1, false}
	}
	if e := (*routing.SyntaxError)(nil); errors.As(err, &e) {
		part := e.Input[e.Offset : e.Offset+e.Length]
		if part == "" {
			return &problem{e.Reason, e.Offset, false}
		}
		return &problem{clip(part) + " " + e.Reason, e.Offset, false}
	}
	if bounds := tag.Get("range"); l.what == number && bounds != "" && errors.Is(err, strconv.ErrRange) {
		return &problem{clipped(s) + " is not accepted; accepted: " + strings.Replace(bounds, " ", " to ", 1), -1, true}
	}
	if l.what == number || patterns[reflect.TypeFor[time.Duration]()].String() == l.pattern {
		return &problem{clip(s) + " is not " + l.says, -1, false}
	}
	return &problem{err.Error(), -1, false}
}

// outsideOf says which part of a limit is outside the domain.
func outsideOf(limit string, e *headgate.LimitError) string {
	return fmt.Sprintf("%s is outside of what is accepted: %s is %s; %s", clip(limit), e.Field, e.Value, e.Bound)
}

// outside is what a range accepts, if v is not in it.
func outside(v any, bounds string) string {
	least, most, ok := strings.Cut(bounds, " ")
	if !ok {
		return ""
	}
	in := true
	switch v := v.(type) {
	case int:
		low, high := mustInt(least), mustInt(most)
		in = low <= v && v <= high
	case time.Duration:
		low, err := time.ParseDuration(least)
		high, err2 := time.ParseDuration(most)
		in = err == nil && err2 == nil && low <= v && v <= high
	}
	if in {
		return ""
	}
	return least + " to " + most
}

func mustInt(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("config: a tag holds " + s)
	}
	return n
}

// absolute is a path as it can be written in any file; empty for none.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// unlessZero leaves out what matches everything.
func unlessZero[T fmt.Stringer](v any) string {
	if reflect.ValueOf(v).IsZero() {
		return ""
	}
	return v.(T).String()
}

// shown is a value as it would be written; nothing for one that is left out.
func shown(v reflect.Value) string {
	if l := leaves[v.Type()]; l.show != nil {
		return l.show(v.Interface())
	}
	return fmt.Sprint(v.Interface())
}
