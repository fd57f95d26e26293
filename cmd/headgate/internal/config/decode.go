package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// decoder turns a tree of YAML into values, and keeps where each stood.
type decoder struct {
	source string
	at     map[string]place // by path, of values
	keys   map[string]place // by path, of keys
	nodes  int
	errs   Errors
}

func (d *decoder) fail(p place, path string, shape bool, format string, args ...any) {
	d.errs = append(d.errs, &Error{d.source, p.line, p.column, path, fmt.Sprintf(format, args...), shape})
}

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

// value reads n into v, or says why it cannot be.
func (d *decoder) value(n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string, depth int) {
	n, ok := d.resolve(n, path, depth)
	if !ok {
		return
	}
	d.at[path] = placeOf(n)
	switch {
	case isLeaf(v.Type()):
		d.leaf(n, v, tag, path)
	case v.Kind() == reflect.Struct:
		d.mapping(n, v, path, depth)
	case v.Kind() == reflect.Map:
		d.named(n, v, tag, path, depth)
	default:
		d.list(n, v, tag, path, depth)
	}
}

// resolve follows an alias, and refuses what would cost too much.
func (d *decoder) resolve(n *yaml.Node, path string, depth int) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.nodes++
	switch {
	case d.nodes > mostNodes+1:
		return n, false
	case d.nodes > mostNodes:
		d.fail(placeOf(n), path, true, "the file holds more than %d values, counted with what aliases repeat", mostNodes)
		return n, false
	case depth > mostDepth:
		d.fail(placeOf(n), path, true, "lists and mappings stand more than %d deep in each other", mostDepth)
		return n, false
	case n.Style&yaml.TaggedStyle != 0:
		d.fail(placeOf(n), path, true, "the tag %s is not accepted; write the value without it", clip(n.Tag))
		return n, false
	}
	return n, true
}

// mapping reads the keys that a struct has.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	members := membersOf(v.Type())
	if !d.expect(n, yaml.MappingNode, path, "a mapping with "+strings.Join(namesOf(members), ", ")) {
		return
	}
	seen := make(map[string]place)
	for i := 0; i < len(n.Content); i += 2 {
		name, ok := d.key(n.Content[i], path, seen)
		if !ok {
			continue
		}
		found := false
		for _, m := range members {
			if m.name == name {
				found = true
				d.keys[join(path, name)] = placeOf(n.Content[i])
				d.value(n.Content[i+1], v.FieldByIndex(m.index), m.tag, join(path, name), depth+1)
			}
		}
		if !found {
			d.fail(placeOf(n.Content[i]), join(path, plain(name)), true, "%s", unknownKey(name, members))
		}
	}
	for _, m := range members {
		if _, there := seen[m.name]; !there && m.tag.Get("required") != "" && d.nodes <= mostNodes {
			d.fail(placeOf(n), path, true, "%s is missing", m.name)
		}
	}
}

// named reads a mapping whose keys are names.
func (d *decoder) named(n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string, depth int) {
	what := tag.Get("named")
	if !d.expect(n, yaml.MappingNode, path, "a mapping from each "+what+" to what holds for it") {
		return
	}
	seen := make(map[string]place)
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	for i := 0; i < len(n.Content); i += 2 {
		name, ok := d.key(n.Content[i], path, seen)
		if !ok {
			continue
		}
		inside := join(path, plain(name))
		d.keys[inside] = placeOf(n.Content[i])
		if wrong := wrongName(what, name, tag.Get("keys")); wrong != "" {
			d.fail(placeOf(n.Content[i]), inside, true, "%s", wrong)
			continue
		}
		one := reflect.New(v.Type().Elem()).Elem()
		setDefaults(one)
		d.value(n.Content[i+1], one, tag, inside, depth+1)
		v.SetMapIndex(reflect.ValueOf(name), one)
	}
}

// setDefaults gives a struct the values that its tags say.
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

var presets sync.Map // reflect.Type → reflect.Value: what a mapping is before it is read

func preset(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	for _, m := range membersOf(t) {
		if text := m.tag.Get("default"); text != "" {
			value, wrong := read(m.typ, m.tag, text)
			if wrong != nil {
				panic("config: the default of " + m.name + ": " + wrong.message)
			}
			v.FieldByIndex(m.index).Set(value)
		}
	}
	return v
}

// namePattern is what a name may be: no control characters, no blanks at its ends.
const namePattern = `^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$`

var goodName = regexp.MustCompile(namePattern)

// wrongName says what is wrong with a name; nothing if it is empty.
func wrongName(what, name, pattern string) string {
	if begin, _ := strings.CutPrefix(pattern, "^"); !strings.HasPrefix(name, begin) {
		if what == "key" {
			return "an override is for one key, and is written " + strconv.Quote("key:"+clipped(name))
		}
		return "a " + what + " begins with " + begin
	}
	if !goodName.MatchString(name) {
		return "the name of a " + what + " is not empty, and has neither control characters nor a blank at its ends"
	}
	return ""
}

func clipped(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

// key is the text of a mapping's key. It refuses one that stands there already.
func (d *decoder) key(n *yaml.Node, path string, seen map[string]place) (string, bool) {
	n, ok := d.resolve(n, path, 0)
	switch {
	case !ok:
		return "", false
	case n.Kind != yaml.ScalarNode:
		d.fail(placeOf(n), path, true, "a key is a plain text, not %s", kindOf(n))
		return "", false
	case n.Tag == "!!merge":
		d.fail(placeOf(n), path, true, "<< is not accepted; write the lines again, or an alias in place of a whole value")
		return "", false
	}
	if first, there := seen[n.Value]; there {
		d.fail(placeOf(n), join(path, plain(n.Value)), true, "stands here twice; the first is at %d:%d", first.line, first.column)
		return "", false
	}
	seen[n.Value] = placeOf(n)
	return n.Value, true
}

// list reads a sequence.
func (d *decoder) list(n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string, depth int) {
	item := "values"
	if l := leaves[v.Type().Elem()]; l != nil && l.example != "" {
		item = "values such as [" + strconv.Quote(l.example) + "]"
	}
	if isLeaf(v.Type().Elem()) && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		item += "; did you mean [" + clip(asMeant(n, leaves[v.Type().Elem()])) + "]?"
	}
	if !d.expect(n, yaml.SequenceNode, path, "a list of "+item) {
		return
	}
	least, most := countOf(tag)
	if len(n.Content) < least || len(n.Content) > most {
		d.fail(placeOf(n), path, true, "it has %d entries; accepted are %d to %d", len(n.Content), least, most)
		if len(n.Content) > most {
			return
		}
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, entry := range n.Content {
		d.value(entry, v.Index(i), tag, path+"["+strconv.Itoa(i)+"]", depth+1)
	}
}

// asMeant is a scalar as it would be written to be accepted.
func asMeant(n *yaml.Node, l *leaf) string {
	if l.meant != "" && (n.Tag == "!!int" || n.Tag == "!!float") {
		return fmt.Sprintf(l.meant, clipped(n.Value))
	}
	return n.Value
}

// countOf are the least and most entries of a list.
func countOf(tag reflect.StructTag) (least, most int) {
	a, b, _ := strings.Cut(tag.Get("count"), " ")
	return mustInt(a), mustInt(b)
}

// expect reports whether n is of a kind, and says so if not.
func (d *decoder) expect(n *yaml.Node, kind yaml.Kind, path, want string) bool {
	if n.Kind != kind {
		if strings.HasSuffix(want, "?") {
			d.fail(placeOf(n), path, true, "expected %s", want)
			return false
		}
		d.fail(placeOf(n), path, true, "expected %s, not %s", want, kindOf(n))
		return false
	}
	return true
}

// leaf reads one scalar.
func (d *decoder) leaf(n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string) {
	l := leaves[v.Type()]
	if wrong := wrongScalar(n, l, v.Type(), tag); wrong != "" {
		d.fail(placeOf(n), path, true, "%s", wrong)
		return
	}
	got, wrong := read(v.Type(), tag, n.Value)
	if wrong != nil {
		d.fail(inside(n, wrong.offset), path, wrong.shape, "%s", wrong.message)
		return
	}
	v.Set(got)
}

// wrongScalar says why n is none of what l is written as; nothing if it is.
func wrongScalar(n *yaml.Node, l *leaf, t reflect.Type, tag reflect.StructTag) string {
	expected := "expected " + string(l.what)
	if options := optionsOf(tag); options != nil {
		expected = "expected " + strings.Join(options, ", ")
	} else if l.says != "" {
		expected = "expected " + l.says
	}
	if n.Kind != yaml.ScalarNode {
		return expected + ", not " + kindOf(n)
	}
	switch {
	case n.Tag == "!!null":
		return expected + ", and nothing stands here; leave the key out to have its default"
	case l.meant != "" && (n.Tag == "!!int" || n.Tag == "!!float"):
		return expected + "; did you mean " + asMeant(n, l) + "?"
	case tag.Get("oneof") != "" && n.Tag != "!!str":
		return expected + ", not " + tagNames[n.Tag]
	case l.what == text && n.Tag != "!!str":
		return expected + "; " + quoted(t, n.Value) + " is " + tagNames[n.Tag] + " in YAML: put it into quotes"
	case l.what == truth && n.Tag == "!!str" && meantTruth[strings.ToLower(n.Value)] != "":
		return expected + "; did you mean " + meantTruth[strings.ToLower(n.Value)] + "?"
	case l.what == number && n.Tag != "!!int" && n.Tag != "!!float", l.what == truth && n.Tag != "!!bool":
		return expected + ", not " + tagNames[n.Tag]
	}
	return ""
}

// meantTruth are the words that older YAML takes for true and false.
var meantTruth = map[string]string{"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false", "true": "true", "false": "false"}

var tagNames = map[string]string{
	"!!str": "a text", "!!int": "a number", "!!float": "a number with a fraction", "!!bool": "true or false", "!!timestamp": "a date",
	"!!null": "nothing", "!!merge": "<<",
}

// inside is where an offset in a scalar's text stands in the file. It is known where the text is written as it is.
func inside(n *yaml.Node, offset int) place {
	p := placeOf(n)
	if offset < 0 || offset > len(n.Value) || strings.ContainsAny(n.Value, "\n\\\"'") {
		return p
	}
	before := utf8.RuneCountInString(n.Value[:offset])
	switch n.Style {
	case 0:
		p.column += before
	case yaml.SingleQuotedStyle, yaml.DoubleQuotedStyle:
		p.column += before + 1
	}
	return p
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

// plain is a name as a path repeats it: bounded, and in quotes if it holds more than letters, digits and what joins them.
func plain(name string) string {
	simple := strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}) < 0
	if name != "" && simple && len(name) <= 60 {
		return name
	}
	return clip(name)
}
