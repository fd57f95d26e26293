package envoyconfig

import (
	"errors"
	"strconv"
	"strings"
)

// ErrInvalid is what every error about a configuration's contents matches.
var ErrInvalid = errors.New("envoyconfig: invalid configuration")

// Error is what is wrong with a file, in the words of envoyproxy/ratelimit. It matches [ErrInvalid].
type Error struct {
	File    string // its name in its folder
	Line    int    // from 1; 0 if it is in no one place
	Column  int    // from 1; 0 if it is not known
	Message string
}

// Error is “basic.yaml: descriptor has empty key”, as envoyproxy/ratelimit says it. [Error.Place] says where.
func (e *Error) Error() string { return e.File + ": " + e.Message }

// Is reports whether target is [ErrInvalid].
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// Place is “basic.yaml:4:5”, as far as it is known.
func (e *Error) Place() string { return place(e.File, e.Line, e.Column) }

func place(file string, line, column int) string {
	if line > 0 {
		file += ":" + strconv.Itoa(line)
	}
	if line > 0 && column > 0 {
		file += ":" + strconv.Itoa(column)
	}
	return file
}

// Errors is the first error of each file that has one, in the order of the files. It matches [ErrInvalid].
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

// Warning is what is allowed and does not do what it seems to.
type Warning struct {
	File    string
	Line    int
	Column  int
	Message string
}

// String is “basic.yaml:7:9: …”.
func (w Warning) String() string { return place(w.File, w.Line, w.Column) + ": " + w.Message }
