package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid is what every error about a configuration's contents matches.
var ErrInvalid = errors.New("config: invalid configuration")

// mostErrors bounds how many errors of one configuration are told.
const mostErrors = 100

// Error is one thing that is wrong. It matches [ErrInvalid].
type Error struct {
	Source  string // the file, or the flag or variable
	Line    int    // of a file, from 1; 0 if it is in no one place
	Column  int    // from 1, in characters
	Path    string // what it is about: policies.login.limits[0]; may be empty
	Message string // what is wrong, and what was meant
	shape   bool   // the JSON Schema says so, too
}

// Error is “headgate.yaml:4:18: policies.login.limits[0]: …”.
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

// Errors is everything that is wrong with a configuration, in the order of the file: at least one, and at most 100, the last of which
// then says that there are more. It matches [ErrInvalid].
type Errors []*Error

// Error is one line for each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is [ErrInvalid].
func (e Errors) Is(target error) bool { return target == ErrInvalid }

// orNil is e in order and bounded, or nil if nothing is wrong.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if more := len(e) - mostErrors; more > 0 {
		e = append(e[:mostErrors:mostErrors], &Error{Source: e[0].Source, Message: "and " + strconv.Itoa(more) + " more"})
	}
	return e
}

// clip bounds how much of a text an error repeats.
func clip(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return strconv.Quote(s)
}
