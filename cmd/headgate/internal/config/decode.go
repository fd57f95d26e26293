package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"
)

// decoder decodes a YAML tree into Go values and records the position of each value.
type decoder struct {
	source string
	at     map[string]position // positions of values, by path
	keys   map[string]position // positions of keys, by path
	limits map[string]string   // texts of limits as written, by path
	nodes  int
	errs   Errors
}

// fail records an error. The parameter shape is whether the JSON Schema rejects the
// file, too.
func (d *decoder) fail(p position, path string, shape bool, format string, args ...any) {
	d.errs = append(d.errs, &Error{
		d.source, p.line, p.column, path, fmt.Sprintf(format, args...), shape,
	})
}

func positionOf(n *yaml.Node) position { return position{n.Line, n.Column} }

// value decodes n into v, or records an error if n is invalid.
func (d *decoder) value(
	n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string, depth int,
) {
	n, ok := d.resolve(n, path, depth)
	if !ok {
		return
	}
	d.at[path] = positionOf(n)
	switch {
	case isLeaf(v.Type()):
		d.leaf(n, v, tag, path)
	case tag.Get("words") != "":
		d.switched(n, v, tag, path, depth)
	case v.Kind() == reflect.Struct:
		d.mapping(n, v, path, depth)
	case v.Kind() == reflect.Map:
		d.namedValues(n, v, tag, path, depth)
	default:
		d.list(n, v, tag, path, depth)
	}
}

// resolve returns the node that n refers to if n is an alias, else n. It records an
// error and returns false if the file is nested too deeply or has too many values, or
// if n has a YAML tag that is not supported.
func (d *decoder) resolve(n *yaml.Node, path string, depth int) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.nodes++
	at := positionOf(n)
	switch {
	case d.nodes > maxNodes+1:
		return n, false
	case d.nodes > maxNodes:
		d.fail(at, path, true,
			"file has more than %d values, including those repeated by aliases", maxNodes)
		return n, false
	case depth > maxDepth:
		d.fail(at, path, true, "lists and mappings are nested more than %d deep", maxDepth)
		return n, false
	case n.Style&yaml.TaggedStyle != 0:
		d.fail(at, path, true, "tag %s is not supported; write the value without it", clip(n.Tag))
		return n, false
	}
	return n, true
}

// switched is implemented by a struct with the tag words, which has the words for on and
// for off. The value in the file is a mapping or one of these words.
type switched interface {
	// use is called with the word, or with "" for a mapping.
	use(word string)
}

// switched decodes a YAML mapping or a word.
func (d *decoder) switched(n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string, depth int) {
	to, words := v.Addr().Interface().(switched), strings.Fields(tag.Get("words"))
	if n.Kind == yaml.MappingNode {
		d.mapping(n, v, path, depth)
		to.use("")
		return
	}
	if n.Tag == "!!str" && slices.Contains(words, n.Value) {
		to.use(n.Value)
		return
	}
	written, hint := "value is "+kindOf(n), ""
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		written = clip(n.Value) + " is not valid"
	}
	if meant, ok := map[string]string{"true": words[0], "false": words[1]}[boolWords[strings.ToLower(n.Value)]]; ok {
		hint = "; did you mean " + meant + "?"
	}
	d.fail(positionOf(n), path, true, "%s; must be %s, or a mapping with the keys %s%s",
		written, strings.Join(words, ", "), strings.Join(namesOf(membersOf(v.Type())), ", "), hint)
}

// mapping decodes a YAML mapping into a struct.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	members := membersOf(v.Type())
	want := "a mapping with the keys " + strings.Join(namesOf(members), ", ")
	if !d.expect(n, yaml.MappingNode, path, want) {
		return
	}
	seen, written := make(map[string]position), make(map[string]string)
	for i := 0; i < len(n.Content); i += 2 {
		name, ok := d.key(n.Content[i], path, seen)
		if !ok {
			continue
		}
		at := positionOf(n.Content[i])
		m := memberNamed(members, name)
		if m == nil {
			d.fail(at, join(path, plain(name)), true, "%s", unknownKey(name, path, members))
			continue
		}
		if other, both := written[m.name]; both {
			d.fail(at, join(path, name), true,
				"%s and %s are the same key; remove one (the first is at %d:%d)",
				other, name, seen[other].line, seen[other].column)
			continue
		}
		written[m.name] = name
		d.keys[join(path, m.name)] = at
		d.value(n.Content[i+1], v.FieldByIndex(m.index), m.tag, join(path, m.name), depth+1)
	}
	for _, m := range members {
		missing := written[m.name] == "" && m.tag.Get("required") != ""
		if missing && d.nodes <= maxNodes {
			d.fail(positionOf(n), path, true, "%s is required", m.name)
		}
	}
}

// namedExamples has an example for each value of the tag named.
var namedExamples = map[string]string{
	"policy": `, such as policies: {api: {limits: ["100/1m"]}}`,
	"key":    `, such as overrides: {acme: ["1000/1m"]}`,

	"header field": `, such as header: {X-Plan: pro}`,
}

// namedValues decodes a YAML mapping whose keys are names that the user chooses. If the
// tag has a prefix, names are stored with the prefix; it may be omitted in the file.
func (d *decoder) namedValues(
	n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string, depth int,
) {
	what, prefixes := tag.Get("named"), strings.Fields(tag.Get("prefix"))
	if !d.expect(n, yaml.MappingNode, path, "a mapping with one entry per "+what+namedExamples[what]) {
		return
	}
	seen, full := make(map[string]position), make(map[string]position)
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	for i := 0; i < len(n.Content); i += 2 {
		written, ok := d.key(n.Content[i], path, seen)
		if !ok {
			continue
		}
		name, at := withPrefix(written, prefixes), positionOf(n.Content[i])
		inside := join(path, plain(name))
		d.keys[inside] = at
		if !validName.MatchString(written) {
			d.fail(at, path, true, "%.60q is not the name of a %s: it must not be empty, contain control "+
				"characters, or begin or end with a space", written, what)
			continue
		}
		if message := ambiguous(written, name, prefixes, full); message != "" {
			d.fail(at, inside, false, "%s", message)
			continue
		}
		full[name] = at
		element := reflect.New(v.Type().Elem()).Elem()
		setDefaults(element)
		d.value(n.Content[i+1], element, tag, inside, depth+1)
		v.SetMapIndex(reflect.ValueOf(name), element)
	}
}

// withPrefix returns name with the first of the prefixes. It does not add the prefix if
// name already begins with one of them.
func withPrefix(name string, prefixes []string) string {
	if len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return name
	}
	return prefixes[0] + name
}

// ambiguous returns an error message for a key of a mapping, or "". The parameter
// written is the key as it is in the file, and name is the key with prefix. A key is
// ambiguous if it occurs both with and without the first prefix, or with a prefix in
// other case.
func ambiguous(written, name string, prefixes []string, seen map[string]position) string {
	if first, twice := seen[name]; twice {
		return fmt.Sprintf("%s and %s are the same; remove one (the first is at %d:%d)",
			clip(strings.TrimPrefix(name, prefixes[0])), clip(name), first.line, first.column)
	}
	for _, prefix := range prefixes {
		n := len(prefix)
		if len(written) < n || written[:n] == prefix || !strings.EqualFold(written[:n], prefix) {
			continue
		}
		return fmt.Sprintf("%s is ambiguous; write %s, or %s if %s is meant literally",
			clip(written), clip(prefix+written[n:]), clip(name), written[:n])
	}
	return ""
}

// setDefaults sets the fields of a struct to the defaults in their tags.
func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	known, ok := presets.Load(v.Type())
	if !ok {
		known, _ = presets.LoadOrStore(v.Type(), preset(v.Type()))
	}
	v.Set(known.(reflect.Value))
}

// presets caches one value with defaults for each struct type: reflect.Type →
// reflect.Value.
var presets sync.Map

func preset(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	for _, m := range membersOf(t) {
		if m.typ.Kind() == reflect.Struct && !isLeaf(m.typ) {
			setDefaults(v.FieldByIndex(m.index))
		}
		if text := m.tag.Get("default"); text != "" {
			value, wrong := parseText(m.typ, m.tag, text)
			if wrong != nil {
				panic("config: invalid default of " + m.name + ": " + wrong.message)
			}
			v.FieldByIndex(m.index).Set(value)
		}
	}
	return v
}

// namePattern matches valid names: without control characters, and without a space at
// either end.
const namePattern = `^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$`

var validName = regexp.MustCompile(namePattern)

// key returns the text of a mapping's key. It records an error for a duplicate key.
func (d *decoder) key(n *yaml.Node, path string, seen map[string]position) (string, bool) {
	n, ok := d.resolve(n, path, 0)
	at := positionOf(n)
	switch {
	case !ok:
		return "", false
	case n.Kind != yaml.ScalarNode:
		d.fail(at, path, true, "key is %s; must be a string", kindOf(n))
		return "", false
	case n.Tag == "!!merge":
		d.fail(at, path, true,
			"merge keys (<<) are not supported; repeat the lines, or use an alias for a whole value")
		return "", false
	}
	if first, duplicate := seen[n.Value]; duplicate {
		d.fail(at, join(path, plain(n.Value)), true,
			"duplicate key; the first is at %d:%d", first.line, first.column)
		return "", false
	}
	seen[n.Value] = at
	return n.Value, true
}

// list decodes a YAML sequence. If the elements of the list are scalars, a single
// scalar is decoded as a list with one element.
func (d *decoder) list(
	n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string, depth int,
) {
	item := "values"
	if l := leaves[v.Type().Elem()]; l != nil && l.example != "" {
		item = "values such as [" + strconv.Quote(l.example) + "]"
	}
	entries := n.Content
	if isLeaf(v.Type().Elem()) && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		entries = []*yaml.Node{n}
	} else if !d.expect(n, yaml.SequenceNode, path, "a list of "+item) {
		return
	}
	low, high := countOf(tag)
	if len(entries) < low || len(entries) > high {
		d.fail(positionOf(n), path, true,
			"list has %d entries; must be %d to %d", len(entries), low, high)
		if len(entries) > high {
			return
		}
	}
	v.Set(reflect.MakeSlice(v.Type(), len(entries), len(entries)))
	for i, entry := range entries {
		d.value(entry, v.Index(i), tag, path+"["+strconv.Itoa(i)+"]", depth+1)
	}
}

// countOf returns the minimum and maximum number of entries of a list.
func countOf(tag reflect.StructTag) (low, high int) {
	a, b, _ := strings.Cut(tag.Get("count"), " ")
	return mustInt(a), mustInt(b)
}

// expect reports whether the kind of n is the expected one, and records an error if it
// is not.
func (d *decoder) expect(n *yaml.Node, kind yaml.Kind, path, want string) bool {
	if n.Kind != kind {
		d.fail(positionOf(n), path, true, "value is %s; must be %s", kindOf(n), want)
		return false
	}
	return true
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return tagNames[n.Tag]
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// plain returns a name for use in a path. It shortens a long name, and quotes a name
// that has characters other than letters, digits, "_" and "-".
func plain(name string) string {
	simple := strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			r == '_' || r == '-')
	}) < 0
	if name != "" && simple && len(name) <= 60 {
		return name
	}
	return clip(name)
}

// shorten returns at most the first 40 bytes of s.
func shorten(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}
