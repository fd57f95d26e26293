package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Schema returns the JSON Schema (draft 2020-12) of a configuration file, for editors.
// The schema checks each value alone. [Parse] rejects every file that the schema
// rejects, and also files with limits out of range, unknown policies or routes that
// never match.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[File](), "", "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Configuration of headgate serve"
	s["type"] = []string{"object", "null"} // a file that has only comments is null
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		panic("config: " + err.Error()) // cannot happen: strings and numbers can always be encoded
	}
	return b.Bytes()
}

func schemaOf(t reflect.Type, tag reflect.StructTag, path string) map[string]any {
	s := make(map[string]any)
	switch {
	case isLeaf(t):
		s = leafSchema(t, tag)
	case t.Kind() == reflect.Struct:
		s = structSchema(t, path)
		if words := strings.Fields(tag.Get("words")); len(words) > 0 {
			s = map[string]any{"anyOf": []any{map[string]any{"enum": words}, s}}
		}
	case t.Kind() == reflect.Map:
		s["type"] = "object"
		s["additionalProperties"] = schemaOf(t.Elem(), tag, join(path, "NAME"))
		s["propertyNames"] = map[string]any{"pattern": namePattern}
	default:
		items := schemaOf(t.Elem(), "", path+"[]")
		s["type"], s["items"] = "array", items
		s["minItems"], s["maxItems"] = countOf(tag)
		if isLeaf(t.Elem()) { // a single scalar is accepted as a list with one element
			s = map[string]any{"anyOf": []any{s, items}}
		}
	}
	if help := helps[path]; help != "" {
		s["description"] = strings.ToUpper(help[:1]) + help[1:]
	}
	return s
}

// structSchema returns the schema of a mapping with fixed keys.
func structSchema(t reflect.Type, path string) map[string]any {
	properties := make(map[string]any)
	s := map[string]any{
		"type": "object", "properties": properties, "additionalProperties": false,
	}
	var required []string
	var aliased []any
	for _, m := range membersOf(t) {
		properties[m.name] = schemaOf(m.typ, m.tag, join(path, m.name))
		needed := m.tag.Get("required") != ""
		if m.alias != "" {
			alias := schemaOf(m.typ, m.tag, join(path, m.name))
			if help := helps[join(path, m.alias)]; help != "" {
				alias["description"] = strings.ToUpper(help[:1]) + help[1:]
			}
			properties[m.alias] = alias
			aliased = append(aliased, aliasSchema(m.name, m.alias, needed))
		} else if needed {
			required = append(required, m.name)
		}
	}
	if required != nil {
		s["required"] = required
	}
	if aliased != nil {
		s["allOf"] = aliased
	}
	return s
}

// aliasSchema returns a schema that rejects objects with both a key and its alias. If
// the key is required, it also rejects objects with neither.
func aliasSchema(name, alias string, required bool) map[string]any {
	if !required {
		return map[string]any{"not": map[string]any{"required": []string{name, alias}}}
	}
	return map[string]any{"oneOf": []any{
		map[string]any{"required": []string{name}}, map[string]any{"required": []string{alias}},
	}}
}

func leafSchema(t reflect.Type, tag reflect.StructTag) map[string]any {
	l := leaves[t]
	s := make(map[string]any)
	switch {
	case tag.Get("oneof") != "":
		s["enum"] = append(slices.Clone(optionsOf(tag)), slices.Sorted(maps.Keys(aliases[t]))...)
	case l.kind == kindInt:
		s["type"] = "integer"
		if least, most, ok := strings.Cut(tag.Get("range"), " "); ok {
			s["minimum"], s["maximum"] = mustInt(least), mustInt(most)
		}
	case l.kind == kindBool:
		s["type"] = "boolean"
	default:
		s["type"], s["pattern"] = "string", l.pattern
	}
	if l.example != "" {
		s["examples"] = []string{l.example}
	}
	if text := tag.Get("default"); text != "" {
		s["default"] = text
		if l.kind != kindString {
			s["default"] = json.RawMessage(text)
		}
	}
	return s
}
