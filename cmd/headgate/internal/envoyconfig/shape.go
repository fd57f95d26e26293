package envoyconfig

import (
	"fmt"
	"math"
	"slices"
)

// Where a key may stand.
const (
	inFile = iota
	inDescriptor
	inRateLimit
	inReplaces
)

// places are what the places are called.
var places = [...]string{"the file itself", "a descriptor", "a rate_limit", "an entry of replaces"}

// keysOf are the keys that say something at each place.
var keysOf = [...][]string{
	inFile: {"domain", "descriptors"},
	inDescriptor: {
		"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
	},
	inRateLimit: {
		"unit", "requests_per_unit", "unlimited", "name", "replaces", "unit_multiplier", "algorithm", "limits", "on_store_error",
	},
	inReplaces: {"name"},
}

func known(key string) bool {
	return slices.ContainsFunc(keysOf[:], func(keys []string) bool { return slices.Contains(keys, key) })
}

// checkKeys refuses keys that are nowhere known, and values that are nowhere accepted. Like envoyproxy/ratelimit it does not look at
// where a key stands.
func checkKeys(file string, v *value) *Error {
	fail := func(at *value, format string, args ...any) *Error {
		return &Error{file, at.line, at.column, fmt.Sprintf(format, args...)}
	}
	for _, m := range v.members {
		switch {
		case m.key.kind != text:
			return fail(m.key, "config error, key is not of type string: %s", m.key.understood())
		case !known(m.key.text):
			return fail(m.key, "config error, unknown key '%s'", m.key.shown())
		case m.key.text == "metadata":
			continue
		case m.value.kind == large || m.value.kind == fraction:
			return fail(m.value, "error checking config")
		case m.value.kind == mapping:
			if wrong := checkKeys(file, m.value); wrong != nil {
				return wrong
			}
		}
		for _, item := range m.value.items {
			if item.kind != mapping && m.key.text == "limits" {
				continue
			}
			if item.kind != mapping {
				return fail(item, "config error, yaml file contains list of type other than map: %s", item.understood())
			}
			if wrong := checkKeys(file, item); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

// decoder reads values of known places into what they mean. It keeps the first error.
type decoder struct {
	file     string
	wrong    *Error
	warnings []Warning
}

func (d *decoder) fail(v *value, message string) {
	if d.wrong == nil {
		d.wrong = &Error{d.file, v.line, v.column, message}
	}
}

func (d *decoder) warn(v *value, format string, args ...any) {
	if len(d.warnings) < mostWarnings {
		d.warnings = append(d.warnings, Warning{d.file, v.line, v.column, fmt.Sprintf(format, args...)})
	}
}

// mismatch fails as YAML's own reader would.
func (d *decoder) mismatch(v *value, into string) {
	shown := v.kind.String()
	if v.kind < list {
		shown += " `" + v.shown() + "`"
	}
	d.fail(v, fmt.Sprintf("error loading config file: yaml: unmarshal errors:\n  line %d: cannot unmarshal %s into %s", v.line, shown, into))
}

// mapping reports whether v is a mapping, and warns of keys that say nothing at a place. nil and null are none.
func (d *decoder) mapping(v *value, at int) bool {
	if v == nil || v.kind == null {
		return false
	}
	if v.kind != mapping {
		d.mismatch(v, places[at])
		return false
	}
	for _, m := range v.members {
		if !slices.Contains(keysOf[at], m.key.text) {
			d.warn(m.key, "%s says nothing here, in %s; %s", m.key.text, places[at], d.belongs(m.key.text))
		}
	}
	return true
}

func (d *decoder) belongs(key string) string {
	for at, keys := range keysOf {
		if slices.Contains(keys, key) {
			return "it belongs into " + places[at]
		}
	}
	return ""
}

func (d *decoder) list(v *value) []*value {
	if v == nil || v.kind == null {
		return nil
	}
	if v.kind != list {
		d.mismatch(v, "a list")
	}
	return v.items
}

func (d *decoder) str(v *value) string {
	switch {
	case v == nil || v.kind == null:
		return ""
	case v.kind >= list:
		d.mismatch(v, "string")
		return ""
	}
	return v.text
}

func (d *decoder) yes(v *value) bool {
	if v == nil || v.kind == null {
		return false
	}
	if v.kind != truth {
		d.mismatch(v, "bool")
	}
	return v.yes
}

func (d *decoder) number(v *value) uint32 {
	if v == nil || v.kind == null {
		return 0
	}
	if v.kind != whole || v.number < 0 || v.number > math.MaxUint32 {
		d.mismatch(v, "uint32")
		return 0
	}
	return uint32(v.number)
}
