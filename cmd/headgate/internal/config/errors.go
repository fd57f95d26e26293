package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid is matched by every error about the contents of a configuration.
var ErrInvalid = errors.New("config: invalid configuration")

// maxErrors is the maximum number of errors that are reported for one configuration.
const maxErrors = 100

// Error is one error in a configuration. It matches [ErrInvalid].
type Error struct {
	Source  string // the file, the flag or the environment variable
	Line    int    // line in the file, from 1; 0 if the error has no single position
	Column  int    // column in characters, from 1
	Path    string // path of the value, such as policies.login.limits[0]; may be empty
	Message string // the error and the accepted values
	shape   bool   // whether the JSON Schema rejects the file, too
}

// Error returns “headgate.yaml:4:18: policies.login.limits[0]: …”.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Source)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Is reports whether target is [ErrInvalid].
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// Errors has all errors of a configuration, in the order of the file. It has 1 to 101
// elements: at most 100 errors and, if there are more, a last element with the number
// of further errors. It matches [ErrInvalid].
type Errors []*Error

// Error returns one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is [ErrInvalid].
func (e Errors) Is(target error) bool { return target == ErrInvalid }

// orNil returns e sorted by position, and shortened to the maximum length. It returns
// nil if e is empty.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if more := len(e) - maxErrors; more > 0 {
		e = append(e[:maxErrors:maxErrors], &Error{
			Source: e[0].Source, Message: "and " + strconv.Itoa(more) + " more",
		})
	}
	return e
}

// clip returns s in quotes. It shortens s to 60 bytes.
func clip(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return strconv.Quote(s)
}
