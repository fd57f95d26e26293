package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Bounds on a file, so that none costs more to read than it should.
const (
	MaxFileBytes = 1 << 20 // of text
	mostDepth    = 16      // of lists and mappings in each other
	mostNodes    = 200_000 // values, those that an alias repeats counted each time
)

// place is where something stands in a file.
type place struct{ line, column int }

// document is the only document of a text, as far as it can be read; nil for one that holds nothing but comments.
func document(source string, text []byte) (*yaml.Node, *Error) {
	wrong := func(p place, format string, args ...any) *Error {
		return &Error{Source: source, Line: p.line, Column: p.column, Message: fmt.Sprintf(format, args...), shape: true}
	}
	switch {
	case len(text) > MaxFileBytes:
		return nil, wrong(place{}, "it has %d bytes; accepted are at most %d", len(text), MaxFileBytes)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, wrong(place{}, "it is empty, as a file that is just being written; one that sets nothing holds a comment at least")
	case !utf8.Valid(text):
		return nil, wrong(invalidUTF8(text), "not UTF-8")
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(mostDepth))))
	if err != nil {
		return nil, wrong(place{}, "%v", err)
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil {
		if ended(err) {
			return nil, nil
		}
		return nil, malformed(source, text, err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, wrong(place{second.Line, second.Column}, "a second document begins here; one file holds one")
	case !ended(err):
		return nil, malformed(source, text, err)
	}
	if len(first.Content) == 0 {
		return nil, nil
	}
	return first.Content[0], nil
}

// ended reports whether a loader has nothing more.
func ended(err error) bool { return errors.Is(err, io.EOF) }

// malformed is the loader's error, in our words where its own do not say what to do.
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
	if at := bytes.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }); e.Line == 0 && at >= 0 {
		p := placeAt(text, at)
		e.Line, e.Column, e.Message = p.line, p.column, "a control character"
	}
	switch {
	case strings.Contains(load.Message, "max depth"):
		e.Message = fmt.Sprintf("lists and mappings stand more than %d deep in each other", mostDepth)
	case strings.Contains(load.Message, "cannot start any token"):
		e.Message = "this character begins nothing in YAML: put the text into quotes, and indent with blanks, not with tabs"
	case strings.Contains(load.Message, "mapping values are not allowed"):
		e.Message = "a second “: ” on one line: put the text into quotes, or a line break before it"
	case load.ContextMsg != "" && load.ContextMark.Line > 0:
		e.Message = fmt.Sprintf("%s (%s that began at %d:%d)", load.Message, load.ContextMsg, load.ContextMark.Line, load.ContextMark.Column)
	}
	return e
}

func invalidUTF8(text []byte) place {
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return placeAt(text, at)
}

// placeAt is the line and column of an offset.
func placeAt(text []byte, at int) place {
	before := text[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return place{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])}
}
