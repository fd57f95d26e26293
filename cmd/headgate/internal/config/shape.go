package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// member is one key of a mapping that is decoded into a struct.
type member struct {
	name  string
	alias string // another name for the key; may be empty
	index []int  // index of the struct field
	typ   reflect.Type
	tag   reflect.StructTag
}

// membersOf returns the keys of a struct type in field order, including the keys of
// inlined structs.
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
			all = append(all, member{name, f.Tag.Get("alias"), []int{i}, f.Type, f.Tag})
		}
	}
	members.Store(t, all)
	return all
}

// members caches the results of membersOf: reflect.Type → []member.
var members sync.Map

// memberNamed returns the member with the given name or alias, or nil.
func memberNamed(members []member, name string) *member {
	for i := range members {
		if m := &members[i]; m.name == name || m.alias != "" && m.alias == name {
			return m
		}
	}
	return nil
}

func namesOf(members []member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	return names
}

// isLeaf reports whether values of type t are written as scalars.
func isLeaf(t reflect.Type) bool { return leaves[t] != nil }

// keyPaths maps each key of the format to its paths: "limits" → policies.POLICY.limits.
var keyPaths = func() map[string][]string {
	all := make(map[string][]string)
	addKeyPaths(all, reflect.TypeFor[File](), "")
	return all
}()

func addKeyPaths(all map[string][]string, t reflect.Type, at string) {
	switch {
	case isLeaf(t):
	case t.Kind() == reflect.Struct:
		for _, m := range membersOf(t) {
			path := strings.TrimPrefix(at+"."+m.name, ".")
			all[m.name] = append(all[m.name], path)
			if m.alias != "" {
				all[m.alias] = append(all[m.alias], path)
			}
			if m.typ.Kind() == reflect.Map {
				path += "." + strings.ToUpper(m.tag.Get("named"))
			}
			addKeyPaths(all, m.typ, path)
		}
	case t.Kind() == reflect.Map:
		addKeyPaths(all, t.Elem(), at)
	case t.Kind() == reflect.Slice:
		addKeyPaths(all, t.Elem(), at+"[]")
	}
}

// unknownKey returns the error message for an unknown key of the mapping at path;
// members are the valid keys of that mapping. In policies and routes, it does not
// suggest similar keys of other sections, because a list of the valid keys is more
// useful.
func unknownKey(name, path string, members []member) string {
	here := namesOf(members)
	if advice := foreignKey(name, path); advice != "" {
		return "unknown key; " + advice
	}
	inRules := strings.HasPrefix(path, "policies") || strings.HasPrefix(path, "routes")
	elsewhere := slices.DeleteFunc(slices.Clone(keyPaths[name]), func(p string) bool {
		if strings.Contains(p, ".lease.") && (!strings.HasPrefix(path, "policies.") || strings.HasSuffix(path, ".holds")) {
			return true // not what ttl means in other sections
		}
		return inRules && strings.Contains(p, ".") && !strings.HasPrefix(p, "policies") &&
			!strings.HasPrefix(p, "routes")
	})
	if len(elsewhere) > 0 {
		return "key is misplaced; it belongs at " + strings.Join(elsewhere, " or ")
	}
	if nearest := suggest.Nearest(name, here); nearest != "" {
		return "unknown key; did you mean " + nearest + "?"
	}
	for _, s := range Settings() {
		if flat(s.Path) == flat(name) {
			return "unknown key; did you mean " + s.Path + "? " + nested(s.Path)
		}
	}
	if slices.Contains([]string{"domain", "descriptors", "rate_limit"}, name) {
		return "unknown key; this is an envoyproxy/ratelimit file: " +
			"put it into a folder and set envoy.config to the folder"
	}
	nearest := suggest.Nearest(name, slices.Sorted(maps.Keys(keyPaths)))
	if nearest != "" && !inRules {
		return "unknown key; did you mean " + strings.Join(keyPaths[nearest], " or ") + "?"
	}
	return "unknown key; must be one of " + strings.Join(here, ", ")
}

// nested returns an example of how a setting in a section is written in the file.
func nested(path string) string {
	section, name, ok := strings.Cut(path, ".")
	if !ok {
		return ""
	}
	return "Write " + section + ": {" + name + ": …}"
}

// flat returns the first 64 bytes of a name in lower case, without the characters that
// separate words.
func flat(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", " ", "").
		Replace(strings.ToLower(s[:min(len(s), 64)]))
}
