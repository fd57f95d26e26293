package envoyconfig

import (
	"fmt"
	"strings"
)

// Bounds on a file, and on a configuration, so that none costs more to read than it should.
const (
	MaxFileBytes = 4 << 20     // of text
	mostDepth    = 100         // of lists and mappings in each other: two for each level of descriptors
	mostValues   = 500_000     // those that an alias repeats counted each time
	mostNamed    = 64 << 20    // bytes of what the rules of a configuration are called: each repeats those above it
	mostCompared = 200_000_000 // letters of it that are held against each other to find rules that can never match
	mostWarnings = 1000        // of a file, and of names in replaces in all
)

// kind is what a value is by the rules of the YAML 1.1 that envoyproxy/ratelimit reads, in which yes is true and 010 is 8.
type kind uint8

const (
	null kind = iota
	truth
	whole // fits an int64
	large // a whole number that does not
	fraction
	text
	list
	mapping
)

// String is the kind as YAML tags it.
func (k kind) String() string {
	return [...]string{"!!null", "!!bool", "!!int", "!!int", "!!float", "!!str", "!!seq", "!!map"}[k]
}

// value is a value of a file.
type value struct {
	kind    kind
	text    string  // of a scalar, as it stands there
	number  int64   // of a whole one
	natural uint64  // of a large one
	real    float64 // of a fraction
	yes     bool    // of a truth
	items   []*value
	members []member // each key once
	before  *value   // the mapping that stood in this one's place, whose keys hold where this one has none
	line    int
	column  int
}

type member struct{ key, value *value }

// get is the value of a key; nil if it is not there.
func (v *value) get(key string) *value {
	for ; v != nil; v = v.before {
		for _, m := range v.members {
			if m.key.text == key {
				return m.value
			}
		}
	}
	return nil
}

// shown is a scalar as messages repeat it: as it stands there, bounded.
func (v *value) shown() string { return clip(v.text) }

// understood is a value as envoyproxy/ratelimit's messages repeat it: yes is true, and 010 is 8. It is bounded.
func (v *value) understood() string { return clip(fmt.Sprint(v.generic())) }

// generic is a value as Go's libraries for YAML have it where nothing is known of its type.
func (v *value) generic() any {
	switch v.kind {
	case null:
		return nil
	case truth:
		return v.yes
	case whole:
		return v.number
	case large:
		return v.natural
	case fraction:
		return v.real
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

// mostShown bounds what messages repeat of a file, in bytes.
const mostShown = 60

func clip(s string) string {
	if len(s) > mostShown {
		return strings.ToValidUTF8(s[:mostShown], "") + "…"
	}
	return s
}
