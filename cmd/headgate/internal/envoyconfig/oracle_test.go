package envoyconfig

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	oracle "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v4"
)

// FuzzScalars compares a scalar with yaml.v2, the library of envoyproxy/ratelimit.
func FuzzScalars(f *testing.F) {
	text, err := os.ReadFile("testdata/scalars.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if scalar, _, ok := strings.Cut(line, " => "); ok {
			f.Add(strings.TrimSpace(scalar))
		}
	}
	f.Fuzz(func(t *testing.T, scalar string) { compare(t, "k: "+scalar+"\n") })
}

// FuzzDocuments compares whole documents with yaml.v2.
func FuzzDocuments(f *testing.F) {
	for _, doc := range []string{
		"domain: d\ndescriptors:\n  - key: k\n    value: v\n    rate_limit: {unit: day, requests_per_unit: 010}\n",
		"a: &x {b: yes, c: [1, ~, 0x1F]}\nd: *x\ne:\n  <<: *x\n  b: no\n",
		"a: &x {b: 1}\ny: &y {b: 2, c: 3}\nm: {<<: [*x, *y], d: 4}\n",
		"k: 1\nk: 2\n1: a\n0x1: b\n\"1\": c\n",
		"a: |\n  text\n  more\nb: >-\n  folded\n  text\nc: 'it''s'\nd: \"\\u00e9\"\n",
		"%YAML 1.1\n---\na: !!float 1\n...\n---\nb: 2\n",
		"? a\n: b\n? [c]\n: d\n",
		"# nothing\n",
	} {
		f.Add(doc)
	}
	f.Fuzz(compare)
}

// compare requires that both libraries read the same from a document that both accept.
func compare(t *testing.T, doc string) {
	if slices.ContainsFunc(parsed, func(r *regexp.Regexp) bool { return r.MatchString(doc) }) {
		return
	}
	var want any
	if err := oracle.Unmarshal([]byte(doc), &want); err != nil {
		return
	}
	got, _, wrong := readDocument("fuzz.yaml", []byte(doc))
	if wrong != nil {
		if syntax(doc) {
			return
		}
		if !slices.ContainsFunc(stricter, func(message string) bool { return strings.Contains(wrong.Message, message) }) {
			t.Errorf("%q is refused: %s; yaml.v2 reads %s", doc, wrong.Message, canonical(want))
		}
		return
	}
	if got == nil {
		got = &value{}
	}
	if _, ok := want.(map[any]any); !ok && got.kind != mapping {
		return // refused later on, whatever it is
	}
	if got, want := canonical(got.generic()), canonical(want); got != want {
		t.Errorf("%q\n got %s\nwant %s", doc, got, want)
	}
}

// syntax reports whether yaml.v4 cannot parse a document at all. Its parser is
// stricter than that of yaml.v2, for example about tags and what follows a document.
// Such a file is refused with line and column when it is loaded, so it is
// never read differently.
func syntax(doc string) bool { return yaml.Unmarshal([]byte(doc), new(yaml.Node)) != nil }

// parsed are constructs that the parsers of yaml.v4 and yaml.v2 read differently.
var parsed = []*regexp.Regexp{
	regexp.MustCompile(`:[,\[\]{}]`), // {a:} has the key “a” in YAML 1.2, and “a:” in yaml.v2
}

// stricter are the other reasons for which a document is refused that yaml.v2 accepts.
var stricter = []string{
	"is not valid UTF-8",    // !!binary: requests and responses contain UTF-8 only
	"exceeded max depth",    // bounds of this package, below those of yaml.v2
	"excessive aliasing",    // the same
	"value contains itself", // yaml.v2 accepts some such anchors if their values are not used
}

// canonical returns a decoded value as text: equal values of both libraries are equal
// texts.
func canonical(v any) string {
	switch v := reflect.ValueOf(v); v.Kind() {
	case reflect.Map:
		var members []string
		for at := v.MapRange(); at.Next(); {
			members = append(members, canonical(at.Key().Interface())+": "+canonical(at.Value().Interface()))
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ", ") + "}"
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, canonical(v.Index(i).Interface()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return fmt.Sprintf("int %d", v.Interface())
	}
	return fmt.Sprintf("%#v", v)
}
