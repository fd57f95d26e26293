package config

import (
	"reflect"
	"strings"
)

// Prefix begins the names of all variables.
const Prefix = "HEADGATE_"

// Setting is one setting: its names, and what is known of it.
type Setting struct {
	Path    string // in the file: http.addr
	Flag    string // http-addr, without the dashes
	Env     string // HEADGATE_HTTP_ADDR
	Default string // as it would be written; empty for an empty list
	Help    string // what it does
	Accepts string // what is accepted, in words
	Restart bool   // a change holds from the next start on
	index   []int
	typ     reflect.Type
	tag     reflect.StructTag
}

// settings are all of them, in the order of the file.
var settings = settingsOf(reflect.TypeFor[File](), "", nil)

// Settings are all settings, in the order of [File].
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

// accepts is what values a type and a tag accept, in words.
func accepts(t reflect.Type, tag reflect.StructTag) string {
	if options := optionsOf(tag); options != nil {
		return strings.Join(options, ", ")
	}
	if least, most, ok := strings.Cut(tag.Get("range"), " "); ok {
		return least + " to " + most
	}
	if t.Kind() == reflect.Slice {
		return leaves[t.Elem()].says + "; several with commas between"
	}
	return leaves[t].says
}

// Kind is what the value of a flag is called in a list of flags.
func (s *Setting) Kind() string {
	switch {
	case s.typ.Kind() == reflect.Slice:
		return "list"
	case s.tag.Get("oneof") != "":
		return strings.Join(optionsOf(s.tag), "|")
	case s.typ == reflect.TypeFor[StoreURL]():
		return "url"
	case s.typ == reflect.TypeFor[Address]():
		return "host:port"
	}
	return map[what]string{text: strings.ToLower(s.typ.Name()), number: "int", truth: "bool"}[leaves[s.typ].what]
}

// set gives the setting in f the value of a text, or says what is wrong with that. Entries of a list stand between commas.
func (s *Setting) set(f *File, text string) *problem {
	to := reflect.ValueOf(f).Elem().FieldByIndex(s.index)
	if s.typ.Kind() != reflect.Slice {
		v, wrong := read(s.typ, s.tag, text)
		if wrong == nil {
			to.Set(v)
		}
		return wrong
	}
	list := reflect.MakeSlice(s.typ, 0, 4)
	for one := range strings.SplitSeq(text, ",") {
		v, wrong := read(s.typ.Elem(), s.tag, strings.TrimSpace(one))
		if wrong != nil {
			return wrong
		}
		list = reflect.Append(list, v)
	}
	to.Set(list)
	return nil
}

// Text is the value in f as it would be written; of a URL without its secrets.
func (s *Setting) Text(f *File) string {
	v := reflect.ValueOf(f).Elem().FieldByIndex(s.index)
	if s.typ.Kind() != reflect.Slice {
		return shown(v)
	}
	var all []string
	for i := range v.Len() {
		all = append(all, shown(v.Index(i)))
	}
	return strings.Join(all, ",")
}

// raw is a text in f as it is, secrets too; empty for what is no text.
func (s *Setting) raw(f *File) string {
	if v := reflect.ValueOf(f).Elem().FieldByIndex(s.index); v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

// equal reports whether a and b agree on the setting.
func (s *Setting) equal(a, b *File) bool {
	return reflect.DeepEqual(reflect.ValueOf(a).Elem().FieldByIndex(s.index).Interface(), reflect.ValueOf(b).Elem().FieldByIndex(s.index).Interface())
}

// copy takes the setting over.
func (s *Setting) copy(to, from *File) {
	reflect.ValueOf(to).Elem().FieldByIndex(s.index).Set(reflect.ValueOf(from).Elem().FieldByIndex(s.index))
}

// NeedRestart are the settings on which before and after disagree and that hold from the start of a process on.
func NeedRestart(before, after *File) []string {
	var changed []string
	for _, s := range settings {
		if s.Restart && !s.equal(before, after) {
			changed = append(changed, s.Path)
		}
	}
	return changed
}
