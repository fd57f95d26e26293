package config

import (
	"reflect"
	"strings"
)

// Prefix is the prefix of all environment variables.
const Prefix = "HEADGATE_"

// Setting is one setting: its names and its description.
type Setting struct {
	Path    string // path in the file, such as http.addr
	Flag    string // name of the flag without dashes, such as http-addr
	Env     string // name of the variable, such as HEADGATE_HTTP_ADDR
	Default string // default in its written form; empty if there is none
	Help    string // help text, one line
	Accepts string // description of the accepted values
	Restart bool   // whether a change takes effect only after a restart
	index   []int
	typ     reflect.Type
	tag     reflect.StructTag
}

// settings has all settings in the order of the fields of [File].
var settings = settingsOf(reflect.TypeFor[File](), "", nil)

// Settings returns all settings in the order of [File].
func Settings() []Setting { return settings }

func settingsOf(t reflect.Type, path string, index []int) []Setting {
	var all []Setting
	for _, m := range membersOf(t) {
		at, here := join(path, m.name), append(index[:len(index):len(index)], m.index...)
		switch {
		case isLeaf(m.typ) || m.typ.Kind() == reflect.Slice && isLeaf(m.typ.Elem()):
			all = append(all, newSetting(at, here, m))
		case m.typ.Kind() == reflect.Struct:
			all = append(all, settingsOf(m.typ, at, here)...)
		}
	}
	return all
}

func newSetting(path string, index []int, m member) Setting {
	flag := strings.NewReplacer(".", "-", "_", "-").Replace(path)
	return Setting{
		Path:    path,
		Flag:    flag,
		Env:     Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")),
		Default: m.tag.Get("default"),
		Help:    helps[path],
		Accepts: accepts(m.typ, m.tag),
		Restart: m.tag.Get("restart") != "",
		index:   index,
		typ:     m.typ,
		tag:     m.tag,
	}
}

// accepts describes the values that are accepted for a setting of type t with the given
// tag.
func accepts(t reflect.Type, tag reflect.StructTag) string {
	if options := optionsOf(tag); options != nil {
		return strings.Join(options, ", ")
	}
	if least, most, ok := strings.Cut(tag.Get("range"), " "); ok {
		return least + " to " + most
	}
	if t.Kind() == reflect.Slice {
		return leaves[t.Elem()].description + "; separate several with commas"
	}
	return leaves[t].description
}

// Kind returns the placeholder for the setting's value in help texts, such as duration,
// list or host:port.
func (s *Setting) Kind() string {
	switch {
	case s.typ.Kind() == reflect.Slice:
		return "list"
	case s.tag.Get("oneof") != "":
		return optionsKind(optionsOf(s.tag))
	case s.typ == reflect.TypeFor[StoreURL]():
		return "url"
	case s.typ == reflect.TypeFor[Address]() || s.typ == reflect.TypeFor[Endpoint]():
		return "host:port"
	}
	switch leaves[s.typ].kind {
	case kindInt:
		return "int"
	case kindBool:
		return "bool"
	}
	return strings.ToLower(s.typ.Name())
}

// maxKindLength is the maximum length of a placeholder, so that help fits 80 columns.
const maxKindLength = 50

// optionsKind returns the placeholder for one of several options: the options, or name if
// they are too long.
func optionsKind(options []string) string {
	if kind := strings.Join(options, "|"); len(kind) <= maxKindLength {
		return kind
	}
	return "name"
}

// set parses a text and sets the setting in f to its value. The entries of a list are
// separated by commas.
func (s *Setting) set(f *File, text string) *problem {
	field := s.field(f)
	if s.typ.Kind() != reflect.Slice {
		v, wrong := parseText(s.typ, s.tag, text)
		if wrong == nil {
			field.Set(v)
		}
		return wrong
	}
	list := reflect.MakeSlice(s.typ, 0, 4)
	for entry := range strings.SplitSeq(text, ",") {
		v, wrong := parseText(s.typ.Elem(), s.tag, strings.TrimSpace(entry))
		if wrong != nil {
			return wrong
		}
		list = reflect.Append(list, v)
	}
	field.Set(list)
	return nil
}

// Text returns the value of the setting in f in its written form, with secrets replaced
// by ***.
func (s *Setting) Text(f *File) string {
	v := s.field(f)
	if s.typ.Kind() != reflect.Slice {
		return formatValue(v)
	}
	var all []string
	for i := range v.Len() {
		all = append(all, formatValue(v.Index(i)))
	}
	return strings.Join(all, ",")
}

// raw returns the text of the setting in f, including secrets, or "" if the setting is
// not a string.
func (s *Setting) raw(f *File) string {
	if v := s.field(f); v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

// field returns the field of f that contains the setting.
func (s *Setting) field(f *File) reflect.Value {
	return reflect.ValueOf(f).Elem().FieldByIndex(s.index)
}

// equal reports whether a and b have the same value for the setting.
func (s *Setting) equal(a, b *File) bool {
	return reflect.DeepEqual(s.field(a).Interface(), s.field(b).Interface())
}

// copy copies the setting from one file to another.
func (s *Setting) copy(to, from *File) { s.field(to).Set(s.field(from)) }

// NeedRestart returns the paths of the changed settings that take effect only after a
// restart.
func NeedRestart(before, after *File) []string {
	var changed []string
	for _, s := range settings {
		if s.Restart && !s.equal(before, after) {
			changed = append(changed, s.Path)
		}
	}
	return changed
}
