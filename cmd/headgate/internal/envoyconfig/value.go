package envoyconfig

import (
	"fmt"
	"strings"
)

// Limits that bound the cost of reading a file or a configuration.
const (
	MaxFileBytes     = 4 << 20     // size of a file
	maxDepth         = 100         // nesting depth of lists and mappings; a level of descriptors has two
	maxValues        = 500_000     // number of values; a value that an alias repeats counts each time
	maxNameBytes     = 64 << 20    // total length of the names of all rules; a name contains those of its parents
	maxComparedBytes = 200_000_000 // total length of the names that are compared to find rules that never match
	maxWarnings      = 1000        // number of warnings per file, and for all names in replaces
)

// kind is the type of a value in YAML 1.1, which envoyproxy/ratelimit reads: yes is
// true and 010 is 8.
type kind uint8

const (
	null kind = iota
	boolean
	integer    // fits an int64
	bigInteger // does not fit an int64
	floating
	text
	list
	mapping
)

// String returns the YAML tag of the kind.
func (k kind) String() string {
	return [...]string{"!!null", "!!bool", "!!int", "!!int", "!!float", "!!str", "!!seq", "!!map"}[k]
}

// value is one value in a configuration file.
type value struct {
	kind     kind
	text     string  // text of a scalar, as written
	number   int64   // value, if the kind is integer
	unsigned uint64  // value, if the kind is bigInteger
	float    float64 // value, if the kind is floating
	boolean  bool    // value, if the kind is boolean
	items    []*value
	members  []member // keys and values of a mapping; no key occurs twice
	base     *value   // earlier mapping of a duplicate key; its keys apply unless members has them
	line     int
	column   int
}

type member struct{ key, value *value }

// get returns the value of a key of a mapping, or nil. It also searches the earlier
// mappings of a duplicate key.
func (v *value) get(key string) *value {
	for ; v != nil; v = v.base {
		for _, m := range v.members {
			if m.key.text == key {
				return m.value
			}
		}
	}
	return nil
}

// clipped returns the text of a scalar for an error message, as written but shortened.
func (v *value) clipped() string { return clip(v.text) }

// goText returns a value for an error message as envoyproxy/ratelimit prints it, but
// shortened: yes is printed as true, and 010 as 8.
func (v *value) goText() string { return clip(fmt.Sprint(v.generic())) }

// generic returns the value that Go's YAML libraries return if they decode into a
// variable of type any.
func (v *value) generic() any {
	switch v.kind {
	case null:
		return nil
	case boolean:
		return v.boolean
	case integer:
		return v.number
	case bigInteger:
		return v.unsigned
	case floating:
		return v.float
	case list:
		items := make([]any, len(v.items))
		for i, item := range v.items {
			items[i] = item.generic()
		}
		return items
	case mapping:
		members := make(map[any]any, len(v.members))
		for _, m := range v.members {
			members[m.key.generic()] = m.value.generic()
		}
		return members
	}
	return v.text
}

// maxShownBytes is the maximum number of bytes of a file's text in a message.
const maxShownBytes = 60

func clip(s string) string {
	if len(s) > maxShownBytes {
		return strings.ToValidUTF8(s[:maxShownBytes], "") + "…"
	}
	return s
}
