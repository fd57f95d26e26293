package envoyconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Bounds on a file, so that none costs more to read than it should.
const (
	MaxFileBytes = 4 << 20 // of text
	mostDepth    = 100     // of lists and mappings in each other: two for each level of descriptors
	mostValues   = 500_000 // those that an alias repeats counted each time
)

// kind is what a value is by the rules of the YAML 1.1 that envoyproxy/ratelimit reads, in which yes is true and 010 is 8.
type kind uint8

const (
	null kind = iota
	truth
	whole // fits an int64
	large // a whole number that does not
	fraction
	text
	list
	mapping
)

// String is the kind as YAML tags it.
func (k kind) String() string {
	return [...]string{"!!null", "!!bool", "!!int", "!!int", "!!float", "!!str", "!!seq", "!!map"}[k]
}

// value is a value of a file.
type value struct {
	kind    kind
	text    string // of a scalar, as it stands there
	number  int64  // of a whole one
	yes     bool   // of a truth
	items   []*value
	members []member // each key once
	line    int
	column  int
}

type member struct{ key, value *value }

// get is the value of a key; nil if it is not there.
func (v *value) get(key string) *value {
	if v == nil {
		return nil
	}
	for _, m := range v.members {
		if m.key.text == key {
			return m.value
		}
	}
	return nil
}

// shown is a scalar as messages repeat it: as it stands there, bounded.
func (v *value) shown() string { return clip(v.text) }

// understood is a value as envoyproxy/ratelimit's messages repeat it: yes is true, and 010 is 8. It is bounded.
func (v *value) understood() string { return clip(string(v.append(nil))) }

func (v *value) append(dst []byte) []byte {
	switch v.kind {
	case null:
		return append(dst, "<nil>"...)
	case truth:
		return strconv.AppendBool(dst, v.yes)
	case whole:
		return strconv.AppendInt(dst, v.number, 10)
	case fraction:
		return fmt.Append(dst, v.float())
	case list:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ' ')
			}
			if dst = item.append(dst); len(dst) > mostShown {
				break
			}
		}
		return append(dst, ']')
	case mapping:
		return append(dst, "map[…]"...)
	}
	return append(dst, v.text...)
}

// mostShown bounds what messages repeat of a file, in bytes.
const mostShown = 60

func clip(s string) string {
	if len(s) > mostShown {
		return strings.ToValidUTF8(s[:mostShown], "") + "…"
	}
	return s
}

// reader turns nodes of YAML into values.
type reader struct {
	file  string
	count int
	open  []*yaml.Node // whose values are being read
}

// read is the first document of a text, and whether another follows; nil if the text holds nothing.
func read(file string, content []byte) (v *value, more bool, wrong *Error) {
	if len(content) > MaxFileBytes {
		return nil, false, loading(file, 0, 0, fmt.Sprintf("it has %d bytes; accepted are at most %d", len(content), MaxFileBytes))
	}
	loader, err := yaml.NewLoader(bytes.NewReader(content), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(mostDepth))))
	if err != nil {
		return nil, false, loading(file, 0, 0, "yaml: "+err.Error())
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, malformed(file, err)
	}
	if len(first.Content) == 0 {
		return nil, false, nil
	}
	r := &reader{file: file}
	v, wrong = r.value(first.Content[0])
	more = !errors.Is(loader.Load(&second), io.EOF)
	return v, more, wrong
}

// malformed is the error of a text that is no YAML.
func malformed(file string, err error) *Error {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return loading(file, 0, 0, "yaml: "+err.Error())
	}
	line, column := load.Mark.Line, load.Mark.Column
	if line == 0 {
		line, column = load.ContextMark.Line, load.ContextMark.Column
	}
	return loading(file, line, column, fmt.Sprintf("yaml: line %d: %s", line, load.Message))
}

func loading(file string, line, column int, cause string) *Error {
	return &Error{file, line, column, "error loading config file: " + cause}
}

func (r *reader) value(n *yaml.Node) (*value, *Error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.count++
	switch {
	case r.count > mostValues:
		return nil, loading(r.file, n.Line, n.Column, "yaml: document contains excessive aliasing")
	case slices.Contains(r.open, n):
		return nil, loading(r.file, n.Line, n.Column, fmt.Sprintf("yaml: anchor '%s' value contains itself", clip(n.Anchor)))
	case len(r.open) > mostDepth:
		return nil, loading(r.file, n.Line, n.Column, "yaml: exceeded max depth")
	}
	r.open = append(r.open, n)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	v := &value{line: n.Line, column: n.Column, text: n.Value}
	switch n.Kind {
	case yaml.SequenceNode:
		v.kind = list
		for _, item := range n.Content {
			read, wrong := r.value(item)
			if wrong != nil {
				return nil, wrong
			}
			v.items = append(v.items, read)
		}
	case yaml.MappingNode:
		v.kind = mapping
		return v, r.members(v, n)
	default:
		v.scalar(n)
	}
	return v, nil
}

// members reads a mapping. Of a key that stands there twice the last value counts, and merged ones count less than those of its own.
func (r *reader) members(v *value, n *yaml.Node) *Error {
	at := make(map[string]int)
	var merged []*value
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, wrong := r.value(n.Content[i])
		if wrong != nil {
			return wrong
		}
		val, wrong := r.value(n.Content[i+1])
		if wrong != nil {
			return wrong
		}
		if key.kind == text && key.text == "<<" && n.Content[i].Style == 0 {
			merged = append(merged, val)
			continue
		}
		id := key.kind.String() + key.text
		if first, twice := at[id]; twice {
			v.members[first] = member{key, val}
			continue
		}
		at[id] = len(v.members)
		v.members = append(v.members, member{key, val})
	}
	return r.merge(v, merged)
}

// merge adds what v does not have.
func (r *reader) merge(v *value, merged []*value) *Error {
	for _, from := range merged {
		all := []*value{from}
		if from.kind == list {
			all = from.items
		}
		for _, one := range all {
			if one.kind != mapping {
				return loading(r.file, from.line, from.column, "yaml: map merge requires map or sequence of maps as the value")
			}
			for _, m := range one.members {
				if v.get(m.key.text) == nil {
					v.members = append(v.members, m)
				}
			}
		}
	}
	return nil
}

// truths are the words for true and false.
var truths = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
}

var nulls = []string{"", "~", "null", "Null", "NULL"}

var floats = regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)

// scalar says what a scalar is. One in quotes, or called a text by its tag, is a text.
func (v *value) scalar(n *yaml.Node) {
	v.kind = text
	tagged := n.Style&yaml.TaggedStyle != 0
	if n.Style&^yaml.TaggedStyle != 0 || tagged && n.Tag != "!!int" && n.Tag != "!!float" && n.Tag != "!!bool" && n.Tag != "!!null" {
		return
	}
	if yes, ok := truths[n.Value]; ok {
		v.kind, v.yes = truth, yes
		return
	}
	if slices.Contains(nulls, n.Value) {
		v.kind = null
		return
	}
	if c := n.Value[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') {
		return
	}
	digits := strings.ReplaceAll(n.Value, "_", "")
	var err error
	if v.number, err = strconv.ParseInt(digits, 0, 64); err == nil {
		v.kind = whole
	} else if _, err = strconv.ParseUint(digits, 0, 64); err == nil {
		v.kind = large
	} else if floats.MatchString(digits) {
		v.kind = fraction
	}
}
