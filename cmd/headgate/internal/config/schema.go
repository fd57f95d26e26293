package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Schema is the JSON Schema (draft 2020-12) of a configuration file, for editors. It says what can be said without knowing the rest of
// the file: whatever it refuses, [Parse] refuses too. Parse refuses more: limits outside the domain, policies that are not there, routes
// that can never match.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[File](), "", "")
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "Configuration of headgate serve"
	s["type"] = []string{"object", "null"} // a file of comments
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		panic("config: " + err.Error()) // texts and numbers always can be
	}
	return b.Bytes()
}

func schemaOf(t reflect.Type, tag reflect.StructTag, path string) map[string]any {
	s := make(map[string]any)
	switch {
	case isLeaf(t):
		s = leafSchema(t, tag)
	case t.Kind() == reflect.Struct:
		properties, required := make(map[string]any), []string(nil)
		for _, m := range membersOf(t) {
			properties[m.name] = schemaOf(m.typ, m.tag, join(path, m.name))
			if m.tag.Get("required") != "" {
				required = append(required, m.name)
			}
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
		if required != nil {
			s["required"] = required
		}
	case t.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", schemaOf(t.Elem(), tag, join(path, "NAME"))
		s["propertyNames"] = map[string]any{"pattern": namePattern}
		if keys := tag.Get("keys"); keys != "" {
			s["propertyNames"] = map[string]any{"allOf": []any{map[string]any{"pattern": namePattern}, map[string]any{"pattern": keys}}}
		}
	default:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), "", path+"[]")
		s["minItems"], s["maxItems"] = countOf(tag)
	}
	if help := helps[path]; help != "" {
		s["description"] = strings.ToUpper(help[:1]) + help[1:]
	}
	return s
}

func leafSchema(t reflect.Type, tag reflect.StructTag) map[string]any {
	l := leaves[t]
	s := make(map[string]any)
	switch {
	case tag.Get("oneof") != "":
		s["enum"] = optionsOf(tag)
	case l.what == number:
		s["type"] = "integer"
		if least, most, ok := strings.Cut(tag.Get("range"), " "); ok {
			s["minimum"], s["maximum"] = mustInt(least), mustInt(most)
		}
	case l.what == truth:
		s["type"] = "boolean"
	default:
		s["type"], s["pattern"] = "string", l.pattern
	}
	if l.example != "" {
		s["examples"] = []string{l.example}
	}
	if text := tag.Get("default"); text != "" {
		s["default"] = text
		if l.what != "text" {
			s["default"] = json.RawMessage(text)
		}
	}
	return s
}
