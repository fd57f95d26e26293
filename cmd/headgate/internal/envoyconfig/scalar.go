package envoyconfig

import (
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Tags of scalars that are not the tag of any kind; [kind.String] returns the others.
const (
	tagString    = "!!str"
	tagBinary    = "!!binary"
	tagTimestamp = "!!timestamp"
)

// tagOf returns the tag that a node has explicitly, or "" if it has none.
func tagOf(n *yaml.Node) string {
	switch {
	case n.Tag == "!": // for this tag, ShortTag would return !!str
		return n.Tag
	case n.Style&yaml.TaggedStyle == 0:
		return ""
	}
	return n.ShortTag()
}

// scalar sets the kind and the value of a scalar in the same way as the YAML library of
// envoyproxy/ratelimit. It returns the cause of an error, or "". The type of a plain
// scalar is inferred from its text. The type of a scalar with a tag is also inferred
// from its text, even if the text is in quotes, and must then be equal to the tag,
// except that an integer may have the tag of a float.
func (v *value) scalar(n *yaml.Node) (cause string) {
	tag := tagOf(n)
	v.kind = text
	switch tag {
	case "":
		if n.Style == 0 {
			v.inferKind() // a scalar in quotes is a string
		}
		return ""
	case tagBinary:
		return v.binary()
	case null.String(), boolean.String(), integer.String(), floating.String(), tagTimestamp:
	default: // all other tags: the scalar is a string
		return ""
	}
	inferred := v.inferredTag(tag == tagTimestamp)
	switch {
	case inferred == tag:
	case tag == floating.String() && v.kind == integer:
		v.kind, v.float = floating, float64(v.number)
	default:
		return fmt.Sprintf("cannot decode %s `%s` as a %s", inferred, v.clipped(), tag)
	}
	return ""
}

// inferredTag returns the tag of the type that is inferred from the scalar's text.
func (v *value) inferredTag(timestamps bool) string {
	if timestamps && isTime(v.text) {
		return tagTimestamp
	}
	v.inferKind()
	return v.kind.String()
}

// binary decodes a base64 string. The result must be UTF-8, because all strings in
// requests and responses are.
func (v *value) binary() (cause string) {
	decoded, err := base64.StdEncoding.DecodeString(v.text)
	if err != nil {
		return "!!binary value contains invalid base64 data"
	}
	if !utf8.Valid(decoded) {
		return "!!binary value is not valid UTF-8"
	}
	v.text = string(decoded)
	return ""
}

// boolWords are the boolean values of YAML 1.1.
var boolWords = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
}

var nullWords = []string{"", "~", "null", "Null", "NULL"}

var specialFloats = map[string]float64{
	".nan": math.NaN(), ".NaN": math.NaN(), ".NAN": math.NaN(),
	".inf": math.Inf(1), ".Inf": math.Inf(1), ".INF": math.Inf(1), "+.inf": math.Inf(1), "+.Inf": math.Inf(1), "+.INF": math.Inf(1),
	"-.inf": math.Inf(-1), "-.Inf": math.Inf(-1), "-.INF": math.Inf(-1),
}

var floatPattern = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// inferKind infers the kind and the value of a plain scalar from its text. Dates stay
// strings.
func (v *value) inferKind() {
	if yes, ok := boolWords[v.text]; ok {
		v.kind, v.boolean = boolean, yes
		return
	}
	if slices.Contains(nullWords, v.text) {
		v.kind = null
		return
	}
	if f, ok := specialFloats[v.text]; ok {
		v.kind, v.float = floating, f
		return
	}
	switch c := v.text[0]; {
	case c == '.':
		v.setFloat(v.text)
	case (c == '+' || c == '-' || c >= '0' && c <= '9') && !isTime(v.text):
		v.setNumber(strings.ReplaceAll(v.text, "_", ""))
	}
}

func (v *value) setNumber(digits string) {
	if n, err := strconv.ParseInt(digits, 0, 64); err == nil {
		v.kind, v.number = integer, n
	} else if n, err := strconv.ParseUint(digits, 0, 64); err == nil {
		v.kind, v.unsigned = bigInteger, n
	} else if floatPattern.MatchString(digits) {
		v.setFloat(digits)
	}
}

// setFloat parses a floating-point number. If the number is out of range, the value
// stays a string.
func (v *value) setFloat(digits string) {
	if f, err := strconv.ParseFloat(digits, 64); err == nil {
		v.kind, v.float = floating, f
	}
}

var timeLayouts = []string{"2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999", "2006-1-2"}

// isTime reports whether the YAML library of envoyproxy/ratelimit reads a text as a
// timestamp.
func isTime(s string) bool {
	if len(s) < 8 || s[4] != '-' || strings.Trim(s[:4], "0123456789") != "" {
		return false
	}
	return slices.ContainsFunc(timeLayouts, func(layout string) bool {
		_, err := time.Parse(layout, s)
		return err == nil
	})
}
