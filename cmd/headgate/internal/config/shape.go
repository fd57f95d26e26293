package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// member is one key that a mapping of the file may have.
type member struct {
	name  string
	index []int // of the field
	typ   reflect.Type
	tag   reflect.StructTag
}

// membersOf returns the keys of a struct in its order, with those of structs that it embeds inline.
func membersOf(t reflect.Type) []member {
	if known, ok := members.Load(t); ok {
		return known.([]member)
	}
	var all []member
	for i := range t.NumField() {
		f := t.Field(i)
		switch name := f.Tag.Get("yaml"); name {
		case "":
		case ",inline":
			for _, m := range membersOf(f.Type) {
				m.name = strings.Replace(m.name, "PEER", f.Tag.Get("peer"), 1)
				m.index = append([]int{i}, m.index...)
				all = append(all, m)
			}
		default:
			all = append(all, member{name, []int{i}, f.Type, f.Tag})
		}
	}
	members.Store(t, all)
	return all
}

var members sync.Map // reflect.Type → []member: there are a handful

func namesOf(members []member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	return names
}

// isLeaf reports whether values of t are written as one text or number.
func isLeaf(t reflect.Type) bool { return leaves[t] != nil }

// places are where each key of the format stands: "limits" → policies.NAME.limits.
var places = func() map[string][]string {
	all := make(map[string][]string)
	addPlaces(all, reflect.TypeFor[File](), "")
	return all
}()

func addPlaces(all map[string][]string, t reflect.Type, at string) {
	switch {
	case isLeaf(t):
	case t.Kind() == reflect.Struct:
		for _, m := range membersOf(t) {
			place := strings.TrimPrefix(at+"."+m.name, ".")
			all[m.name] = append(all[m.name], place)
			if m.typ.Kind() == reflect.Map {
				place += "." + strings.ToUpper(m.tag.Get("named"))
			}
			addPlaces(all, m.typ, place)
		}
	case t.Kind() == reflect.Map:
		addPlaces(all, t.Elem(), at)
	case t.Kind() == reflect.Slice:
		addPlaces(all, t.Elem(), at+"[]")
	}
}

// unknownKey says what was meant by a key that is none of members.
func unknownKey(name string, members []member) string {
	here := namesOf(members)
	if there := places[name]; len(there) > 0 {
		return "it does not belong here; it belongs at " + strings.Join(there, " or ")
	}
	if meant := suggest.Nearest(name, here); meant != "" {
		return "unknown key; did you mean " + meant + "?"
	}
	for _, s := range Settings() {
		if flat(s.Path) == flat(name) {
			return "unknown key; did you mean " + s.Path + "? " + nested(s.Path)
		}
	}
	if slices.Contains([]string{"domain", "descriptors", "rate_limit"}, name) {
		return "unknown key; this is a file of envoyproxy/ratelimit: put it into a folder and name that at envoy.config"
	}
	if meant := suggest.Nearest(name, slices.Sorted(maps.Keys(places))); meant != "" {
		return "unknown key; " + meant + " belongs at " + strings.Join(places[meant], " or ")
	}
	return "unknown key; there are " + strings.Join(here, ", ")
}

// nested shows how a key with a point is written.
func nested(path string) string {
	section, name, ok := strings.Cut(path, ".")
	if !ok {
		return ""
	}
	return "It is written " + section + ": {" + name + ": …}"
}

// flat returns the first 64 bytes of a name without the characters that join its words.
func flat(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(strings.ToLower(s[:min(len(s), 64)]))
}
