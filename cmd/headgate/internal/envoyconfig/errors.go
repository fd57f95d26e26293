package envoyconfig

import (
	"errors"
	"strconv"
	"strings"
)

// ErrInvalid is matched by every error about the contents of a configuration.
var ErrInvalid = errors.New("envoyconfig: invalid configuration")

// Error is an error in a file, with the message of envoyproxy/ratelimit. It matches
// [ErrInvalid].
type Error struct {
	File    string // name in the folder
	Line    int    // from 1; 0 if the error has no single position
	Column  int    // from 1; 0 if unknown
	Message string
}

// Error returns “basic.yaml: descriptor has empty key”, like envoyproxy/ratelimit.
// [Error.Place] returns the position.
func (e *Error) Error() string { return e.File + ": " + e.Message }

// Is reports whether target is [ErrInvalid].
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// Place returns “basic.yaml:4:5”, without line or column if unknown.
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

// Errors has the first error of each invalid file, in the order of the files. It matches
// [ErrInvalid].
type Errors []*Error

// Error returns one line per error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is [ErrInvalid].
func (e Errors) Is(target error) bool { return target == ErrInvalid }

// Warning describes valid configuration without the likely intended effect.
type Warning struct {
	File    string
	Line    int
	Column  int
	Message string
}

// String returns “basic.yaml:7:9: …”.
func (w Warning) String() string { return place(w.File, w.Line, w.Column) + ": " + w.Message }
