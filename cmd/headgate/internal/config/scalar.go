package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate"
)

// leaf decodes one YAML scalar into v.
func (d *decoder) leaf(n *yaml.Node, v reflect.Value, tag reflect.StructTag, path string) {
	if message := scalarError(n, leaves[v.Type()], v.Type(), tag); message != "" {
		if variable := variableReference(n.Value); variable != "" {
			message = notInterpolated(variable, path)
		}
		d.fail(positionOf(n), path, true, "%s", message)
		return
	}
	got, wrong := parseText(v.Type(), tag, n.Value)
	variable := variableReference(n.Value)
	if variable != "" && (wrong != nil || v.Type() == reflect.TypeFor[StoreURL]()) {
		shape := wrong != nil && wrong.shape
		d.fail(positionOf(n), path, shape, "%s", notInterpolated(variable, path))
		return
	}
	if wrong != nil {
		d.fail(positionInside(n, wrong.offset), path, wrong.shape, "%s", wrong.message)
		return
	}
	v.Set(got)
	if v.Type() == reflect.TypeFor[headgate.Limit]() {
		d.limits[path] = n.Value
	}
}

var referencePattern = regexp.MustCompile(`\$\{([A-Za-z_][0-9A-Za-z_]*)[^}\n]*\}`)

// variableReference returns the first reference to an environment variable in a text as
// ${NAME}, without a default value that it may contain. It returns "" if there is none.
func variableReference(text string) string {
	if match := referencePattern.FindStringSubmatch(text); match != nil {
		return "${" + shorten(match[1]) + "}"
	}
	return ""
}

// notInterpolated returns the error message for a reference to an environment variable
// in the value at path.
func notInterpolated(reference, path string) string {
	path, _, _ = strings.Cut(path, "[")
	for i := range settings {
		if s := &settings[i]; s.Path == path {
			return reference + " is not interpolated; remove this line and set the environment " +
				"variable " + s.Env + "=…, which overrides the setting"
		}
	}
	return reference + " is not interpolated: environment variables override settings " +
		"(HEADGATE_STORE=…), but no other part of the file; write the value here"
}

// scalarError returns an error message if n cannot be a value of l, or "" if it can.
func scalarError(n *yaml.Node, l *leaf, t reflect.Type, tag reflect.StructTag) string {
	want := "must be " + string(l.kind)
	if options := optionsOf(tag); options != nil {
		want = "must be one of " + strings.Join(options, ", ")
	} else if l.description != "" {
		want = "must be " + l.description
	}
	if n.Kind != yaml.ScalarNode {
		return "value is " + kindOf(n) + "; " + want
	}
	numeric := n.Tag == "!!int" || n.Tag == "!!float"
	switch word := boolWords[strings.ToLower(n.Value)]; {
	case n.Tag == "!!null":
		return "value is empty; " + want + "; omit the key to use the default"
	case l.suggestion != "" && numeric:
		return want + "; did you mean " + fmt.Sprintf(cmp.Or(tag.Get("suggestion"), l.suggestion), shorten(n.Value)) + "?"
	case tag.Get("oneof") != "" && n.Tag != "!!str":
		return "value is " + tagNames[n.Tag] + "; " + want
	case l.kind == kindString && n.Tag != "!!str":
		return fmt.Sprintf("%s; %s is %s in YAML: quote it", want, quoted(t, n.Value), tagNames[n.Tag])
	case l.kind == kindBool && n.Tag == "!!str" && word != "":
		return want + "; did you mean " + word + "?"
	case l.kind == kindInt && !numeric, l.kind == kindBool && n.Tag != "!!bool":
		return "value is " + tagNames[n.Tag] + "; " + want
	}
	return ""
}

// boolWords maps the words that YAML 1.1 reads as booleans to the words that YAML 1.2
// accepts.
var boolWords = map[string]string{
	"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false",
	"true": "true", "false": "false",
}

var tagNames = map[string]string{
	"!!str": "a string", "!!int": "a number", "!!float": "a number with a fraction",
	"!!bool": "a boolean", "!!timestamp": "a date", "!!null": "empty", "!!merge": "<<",
}

// positionInside returns the position in the file of a byte offset in a scalar's text.
// If the text has escapes or line breaks, it returns the position of the scalar.
func positionInside(n *yaml.Node, offset int) position {
	p := positionOf(n)
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
