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

// Tags that say what a scalar is, beside those of a kind.
const (
	isText      = "!!str"
	isBinary    = "!!binary"
	isTimestamp = "!!timestamp"
)

// tagOf is the tag that a value was given in the text; empty if there is none.
func tagOf(n *yaml.Node) string {
	switch {
	case n.Tag == "!": // which ShortTag takes for that of a text
		return n.Tag
	case n.Style&yaml.TaggedStyle == 0:
		return ""
	}
	return n.ShortTag()
}

// scalar says what a scalar is, as the library of envoyproxy/ratelimit does, or why it is nothing. A plain one is what it looks like,
// and so is one with a tag, even in quotes: the tag then only has to be the same, but that a whole number may be called a float.
func (v *value) scalar(n *yaml.Node) (cause string) {
	tag := tagOf(n)
	v.kind = text
	switch tag {
	case "":
		if n.Style == 0 {
			v.guess() // one in quotes is a text
		}
		return ""
	case isBinary:
		return v.binary()
	case null.String(), truth.String(), whole.String(), fraction.String(), isTimestamp:
	default: // a text, whatever it looks like
		return ""
	}
	looks := v.looks(tag == isTimestamp)
	switch {
	case looks == tag:
	case tag == fraction.String() && v.kind == whole:
		v.kind, v.real = fraction, float64(v.number)
	default:
		return fmt.Sprintf("cannot decode %s `%s` as a %s", looks, v.shown(), tag)
	}
	return ""
}

// looks is the tag of what a scalar looks like.
func (v *value) looks(timestamps bool) string {
	if timestamps && isTime(v.text) {
		return isTimestamp
	}
	v.guess()
	return v.kind.String()
}

// binary decodes a text. One that is no text then could be in no request and in no answer.
func (v *value) binary() (cause string) {
	decoded, err := base64.StdEncoding.DecodeString(v.text)
	if err != nil {
		return "!!binary value contains invalid base64 data"
	}
	if !utf8.Valid(decoded) {
		return "!!binary value is no UTF-8 text"
	}
	v.text = string(decoded)
	return ""
}

// truths are the words for true and false.
var truths = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
}

var nulls = []string{"", "~", "null", "Null", "NULL"}

var infinities = map[string]float64{
	".nan": math.NaN(), ".NaN": math.NaN(), ".NAN": math.NaN(),
	".inf": math.Inf(1), ".Inf": math.Inf(1), ".INF": math.Inf(1), "+.inf": math.Inf(1), "+.Inf": math.Inf(1), "+.INF": math.Inf(1),
	"-.inf": math.Inf(-1), "-.Inf": math.Inf(-1), "-.INF": math.Inf(-1),
}

var floats = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// guess says what a plain scalar looks like. Dates are texts.
func (v *value) guess() {
	if yes, ok := truths[v.text]; ok {
		v.kind, v.yes = truth, yes
		return
	}
	if slices.Contains(nulls, v.text) {
		v.kind = null
		return
	}
	if f, ok := infinities[v.text]; ok {
		v.kind, v.real = fraction, f
		return
	}
	switch c := v.text[0]; {
	case c == '.':
		v.float(v.text)
	case (c == '+' || c == '-' || c >= '0' && c <= '9') && !isTime(v.text):
		v.numeric(strings.ReplaceAll(v.text, "_", ""))
	}
}

func (v *value) numeric(digits string) {
	if n, err := strconv.ParseInt(digits, 0, 64); err == nil {
		v.kind, v.number = whole, n
	} else if n, err := strconv.ParseUint(digits, 0, 64); err == nil {
		v.kind, v.natural = large, n
	} else if floats.MatchString(digits) {
		v.float(digits)
	}
}

// float is a number with a point or an exponent, unless it is out of range.
func (v *value) float(digits string) {
	if f, err := strconv.ParseFloat(digits, 64); err == nil {
		v.kind, v.real = fraction, f
	}
}

var timeLayouts = []string{"2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999", "2006-1-2"}

// isTime reports whether a text is a point in time, as that library knows them.
func isTime(s string) bool {
	if len(s) < 8 || s[4] != '-' || strings.Trim(s[:4], "0123456789") != "" {
		return false
	}
	return slices.ContainsFunc(timeLayouts, func(layout string) bool {
		_, err := time.Parse(layout, s)
		return err == nil
	})
}
