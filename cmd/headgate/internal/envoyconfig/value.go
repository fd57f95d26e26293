package envoyconfig

import (
	"fmt"
	"strings"
)

// Bounds on a file and a configuration limit the cost of reading them.
const (
	MaxFileBytes     = 4 << 20     // of text
	maxDepth         = 100         // of nested lists and mappings: two for each level of descriptors
	maxValues        = 500_000     // one that an alias repeats counts each time
	maxNameBytes     = 64 << 20    // of the names of all rules; each contains the names of its parents
	maxComparedBytes = 200_000_000 // of names, compared to find rules that never match
	maxWarnings      = 1000        // per file, and for all names in replaces
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

// value is a value in a file.
type value struct {
	kind     kind
	text     string  // of a scalar, as written
	number   int64   // of an integer
	unsigned uint64  // of a bigInteger
	float    float64 // of a floating
	boolean  bool    // of a boolean
	items    []*value
	members  []member // each key once
	base     *value   // the earlier mapping of a duplicate key; its keys apply unless this one has them
	line     int
	column   int
}

type member struct{ key, value *value }

// get returns the value of a key, or nil.
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

// clipped returns a scalar for messages: as written, bounded.
func (v *value) clipped() string { return clip(v.text) }

// goText returns a value as in the messages of envoyproxy/ratelimit, bounded: yes is
// true, 010 is 8.
func (v *value) goText() string { return clip(fmt.Sprint(v.generic())) }

// generic returns a value as Go's YAML libraries decode it into any.
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

// maxShownBytes bounds the text of a file in messages.
const maxShownBytes = 60

func clip(s string) string {
	if len(s) > maxShownBytes {
		return strings.ToValidUTF8(s[:maxShownBytes], "") + "…"
	}
	return s
}
