package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Limits that bound the cost of reading a file.
const (
	MaxFileBytes = 1 << 20 // size of the file
	maxDepth     = 16      // nesting depth of lists and mappings
	maxNodes     = 200_000 // number of values; a value that an alias repeats counts each time
)

// position is a position in a file.
type position struct{ line, column int }

// Parsed is a decoded file.
type Parsed struct {
	File   File                // decoded settings; a setting that is not in the file has the zero value
	Source string              // name of the file in errors
	at     map[string]position // positions of the file's values, by path
	limits map[string]string   // texts of limits as written, by path
}

// Parse decodes and checks the text of a configuration file. The parameter source is
// the file name in errors; paths in the file are relative to the folder of source. The
// error is [Errors].
func Parse(source string, text []byte) (*Parsed, error) {
	d := &decoder{source: source, at: make(map[string]position), keys: make(map[string]position), limits: make(map[string]string)}
	root, wrong := document(source, text)
	if wrong != nil {
		return nil, Errors{wrong}
	}
	var f File
	if root != nil {
		d.value(root, reflect.ValueOf(&f).Elem(), "", "", 0)
		d.check(&f)
	}
	if err := d.errs.orNil(); err != nil {
		return nil, err
	}
	for _, s := range settings {
		if s.typ == reflect.TypeFor[Path]() || s.typ == reflect.TypeFor[Folder]() {
			path := s.field(&f)
			path.SetString(resolvePath(source, path.String()))
		}
	}
	f.resolveTokenFiles(source)
	return &Parsed{f, source, d.at, d.limits}, nil
}

// resolvePath converts a path in the configuration file source, which is relative to
// the folder of that file, to a path relative to the working directory.
func resolvePath(source, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(source), path)
}

// sets reports whether the file sets the setting at path.
func (p *Parsed) sets(path string) bool {
	_, ok := p.at[path]
	return ok
}

// document parses a YAML text, which must contain a single document. It returns nil if
// the text has only comments.
func document(source string, text []byte) (*yaml.Node, *Error) {
	wrong := func(p position, format string, args ...any) *Error {
		return &Error{
			Source: source, Line: p.line, Column: p.column, Message: fmt.Sprintf(format, args...),
			shape: true,
		}
	}
	switch {
	case len(text) > MaxFileBytes:
		return nil, wrong(position{}, "file has more than %d bytes", MaxFileBytes)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, wrong(position{}, "file is empty: it may be incompletely written; "+
			"a file without settings must contain a comment")
	case !utf8.Valid(text):
		return nil, wrong(invalidUTF8(text), "invalid UTF-8")
	}
	limits := yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth)))
	loader, err := yaml.NewLoader(bytes.NewReader(text), limits)
	if err != nil {
		return nil, wrong(position{}, "%v", err)
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, malformed(source, text, err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, wrong(positionOf(&second), "second YAML document; a file must contain only one")
	case !errors.Is(err, io.EOF):
		return nil, malformed(source, text, err)
	}
	if len(first.Content) == 0 {
		return nil, nil
	}
	return first.Content[0], nil
}

// malformed converts an error of the YAML loader. It replaces messages that do not
// explain how to correct the file.
func malformed(source string, text []byte, err error) *Error {
	e := &Error{Source: source, Message: err.Error(), shape: true}
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return e
	}
	e.Line, e.Column, e.Message = load.Mark.Line, load.Mark.Column, load.Message
	if e.Line == 0 && load.ContextMark.Line != 0 {
		e.Line, e.Column = load.ContextMark.Line, load.ContextMark.Column
	}
	if at := bytes.IndexFunc(text, isControl); e.Line == 0 && at >= 0 {
		p := positionAt(text, at)
		e.Line, e.Column, e.Message = p.line, p.column, "invalid control character"
	}
	switch context := load.ContextMark; {
	case strings.Contains(load.Message, "max depth"):
		e.Message = fmt.Sprintf("lists and mappings are nested more than %d deep", maxDepth)
	case strings.Contains(load.Message, "cannot start any token"):
		e.Message = "invalid character: quote the text, and indent with spaces, not tabs"
	case strings.Contains(load.Message, "mapping values are not allowed"):
		e.Message = "second “: ” in one line: quote the text, or insert a line break"
	case load.ContextMsg != "" && context.Line > 0:
		e.Message = fmt.Sprintf("%s (%s that began at %d:%d)",
			load.Message, load.ContextMsg, context.Line, context.Column)
	}
	if variable := variableReference(lineOf(text, e.Line)); variable != "" {
		e.Message += "; " + variable + " is not interpolated: environment variables override " +
			"settings (HEADGATE_STORE=…) instead"
	}
	return e
}

func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }

// lineOf returns the line of the text with the given number, from 1, or "" if there is
// no such line.
func lineOf(text []byte, number int) string {
	lines := bytes.Split(text, []byte("\n"))
	if number < 1 || number > len(lines) {
		return ""
	}
	return string(lines[number-1])
}

func invalidUTF8(text []byte) position {
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return positionAt(text, at)
}

// positionAt returns the line and column at a byte offset in text.
func positionAt(text []byte, at int) position {
	before := text[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return position{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])}
}
