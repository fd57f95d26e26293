package envoyconfig

import (
	"fmt"
	"math"
	"slices"
)

// The mappings in which a key can occur.
const (
	inFile = iota
	inDescriptor
	inRateLimit
	inReplaces
	inLease
)

// placeNames are the names of these mappings in messages.
var placeNames = [...]string{"the top-level mapping", "a descriptor", "a rate_limit", "an entry of replaces", "a lease"}

// keysOf has the valid keys of each kind of mapping.
var keysOf = [...][]string{
	inFile: {"domain", "descriptors"},
	inDescriptor: {
		"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
	},
	inRateLimit: {
		"unit", "requests_per_unit", "unlimited", "name", "replaces", "unit_multiplier", "algorithm", "limits", "limit", "on_store_error",
		"lease",
	},
	inReplaces: {"name"},
	inLease:    {"share", "ttl"},
}

func isKnownKey(key string) bool {
	return slices.ContainsFunc(keysOf[:], func(keys []string) bool { return slices.Contains(keys, key) })
}

// checkKeys returns an error for a key, or a type of value, that is not valid in any
// mapping. Like envoyproxy/ratelimit, it does not check whether the key is valid in the
// mapping where it occurs.
func checkKeys(file string, v *value) *Error {
	fail := func(at *value, format string, args ...any) *Error {
		return &Error{File: file, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...)}
	}
	for _, m := range v.members {
		switch {
		case m.key.kind != text:
			return fail(m.key, "config error, key is not of type string: %s", m.key.goText())
		case !isKnownKey(m.key.text):
			return fail(m.key, "config error, unknown key '%s'", m.key.clipped())
		case m.key.text == "metadata":
			continue
		case m.value.kind == bigInteger || m.value.kind == floating:
			return fail(m.value, "error checking config")
		case m.value.kind == mapping:
			if wrong := checkKeys(file, m.value); wrong != nil {
				return wrong
			}
		}
		for _, item := range m.value.items {
			if item.kind != mapping && (m.key.text == "limits" || m.key.text == "limit") {
				continue
			}
			if item.kind != mapping {
				return fail(item, "config error, yaml file contains list of type other than map: %s", item.goText())
			}
			if wrong := checkKeys(file, item); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

// decoder converts values to Go types. It records only the first error.
type decoder struct {
	file     string
	wrong    *Error
	warnings []Warning
}

func (d *decoder) fail(v *value, message string) {
	d.failWithHint(v, message, "")
}

func (d *decoder) failWithHint(v *value, message, hint string) {
	if d.wrong == nil {
		d.wrong = &Error{d.file, v.line, v.column, message, hint}
	}
}

func (d *decoder) warn(v *value, format string, args ...any) {
	if len(d.warnings) < maxWarnings {
		d.warnings = append(d.warnings, Warning{d.file, v.line, v.column, fmt.Sprintf(format, args...)})
	}
}

// mismatch records a type error, with the message of the YAML library that
// envoyproxy/ratelimit uses.
func (d *decoder) mismatch(v *value, into string) {
	text := v.kind.String()
	if v.kind < list {
		text += " `" + v.clipped() + "`"
	}
	d.fail(v, fmt.Sprintf("error loading config file: yaml: unmarshal errors:\n  line %d: cannot unmarshal %s into %s", v.line, text, into))
}

// mapping reports whether v is a mapping; it returns false if v is nil or null. The
// parameter at is the kind of the mapping. A key that has no effect in such a mapping
// produces a warning.
func (d *decoder) mapping(v *value, at int) bool {
	if v == nil || v.kind == null {
		return false
	}
	if v.kind != mapping {
		d.mismatch(v, placeNames[at])
		return false
	}
	for _, m := range v.members {
		if !slices.Contains(keysOf[at], m.key.text) {
			d.warn(m.key, "%s has no effect in %s; %s", m.key.text, placeNames[at], d.correctPlace(m.key.text))
		}
	}
	return true
}

func (d *decoder) correctPlace(key string) string {
	for at, keys := range keysOf {
		if slices.Contains(keys, key) {
			return "it belongs in " + placeNames[at]
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

// limitItems returns the value of the key limits of a rate_limit, or of its alias limit,
// and the entries: a single limit need not be in a list. The value is nil if there is
// neither key.
func (d *decoder) limitItems(from *value) (v *value, items []*value) {
	v, alias := from.get("limits"), from.get("limit")
	switch {
	case v != nil && alias != nil:
		d.fail(alias, "limits and limit are the same key; remove one")
	case v == nil:
		v = alias
	}
	if v != nil && v.kind != null && v.kind < list {
		return v, []*value{v}
	}
	return v, d.list(v)
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

func (d *decoder) boolean(v *value) bool {
	if v == nil || v.kind == null {
		return false
	}
	if v.kind != boolean {
		d.mismatch(v, "bool")
	}
	return v.boolean
}

func (d *decoder) number(v *value) uint32 {
	if v == nil || v.kind == null {
		return 0
	}
	if v.kind != integer || v.number < 0 || v.number > math.MaxUint32 {
		d.mismatch(v, "uint32")
		return 0
	}
	return uint32(v.number)
}
