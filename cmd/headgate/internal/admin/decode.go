package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decode decodes a body, which must be one object. Unknown and duplicate fields, null,
// data after the object and invalid UTF-8 are errors. An error contains no text of the
// body except the name of an unknown field.
func decode[T any](body []byte) (in T, err error) {
	if err := checkJSON(body); err != nil {
		return in, err
	}
	err = json.Unmarshal(body, &in, json.RejectUnknownMembers(true))
	if semantic := (*json.SemanticError)(nil); errors.As(err, &semantic) {
		return in, semanticError(semantic, reflect.TypeFor[T]())
	}
	return in, err
}

// checkJSON returns an error if a body is not one JSON object without null.
func checkJSON(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return badRequest("", "the body is empty; send a JSON object")
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for first := true; ; first = false {
		token, err := d.ReadToken()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, jsontext.ErrDuplicateName):
			return badRequest("", "the body has a field twice, at byte %d", d.InputOffset())
		case err != nil:
			return badRequest("", "the body has malformed JSON at byte %d", d.InputOffset())
		case first && token.Kind() != '{':
			return badRequest("", "the body must be an object, not %s", kindName(token.Kind()))
		case token.Kind() == 'n':
			field := fieldPath(d.StackPointer())
			return badRequest(field, "field %q must not be null; omit it", field)
		case d.StackDepth() == 0 && token.Kind() == '}':
			if rest := bytes.TrimSpace(body[d.InputOffset():]); len(rest) > 0 {
				return badRequest("", "the body has unexpected data after the object, at byte %d", d.InputOffset())
			}
		}
	}
}

// semanticError converts an error about a value or a name that does not match the type.
func semanticError(err *json.SemanticError, of reflect.Type) error {
	field := fieldPath(err.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		name := err.JSONPointer.LastToken()
		return badRequest(field, "%s", unknown("field", name, fieldNames(of, err.JSONPointer.Parent())))
	}
	want := "another type"
	if err.GoType != nil {
		want = typeName(err.GoType)
	}
	if got := kindName(err.JSONKind); err.JSONKind == 0 || got == want || got == "a string" && want == timeName || got == "a number" && want == wholeName {
		return badRequest(field, "field %q is not valid; must be %s", field, want)
	}
	return badRequest(field, "field %q must be %s, not %s", field, want, kindName(err.JSONKind))
}

// fieldPath returns a pointer in the form of the HTTP API, such as overrides[0].target.
func fieldPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			fmt.Fprintf(&b, "[%s]", token)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		fmt.Fprintf(&b, "%.40s", token)
	}
	return b.String()
}

// fieldNames returns the names of the fields of the struct to which a pointer leads.
func fieldNames(t reflect.Type, p jsontext.Pointer) []string {
	for token := range p.Tokens() {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if _, err := strconv.Atoi(token); err != nil && t.Kind() == reflect.Struct {
			for _, f := range reflect.VisibleFields(t) {
				if jsonName(f) == token {
					t = f.Type
					break
				}
			}
		}
	}
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var names []string
	if t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			if name := jsonName(f); name != "" && !f.Anonymous {
				names = append(names, name)
			}
		}
	}
	return names
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// The names of types that are written as a JSON string and as a JSON number.
const (
	timeName  = "a time such as 2026-11-28T12:00:00Z"
	wholeName = "a whole number"
)

// typeName returns the JSON type of the values of a Go type.
func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.String() == "time.Time":
		return timeName
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return wholeName
	case t.Kind() == reflect.Slice:
		return "an array"
	}
	return "an object"
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{', '}':
		return "an object"
	case '[', ']':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
}
