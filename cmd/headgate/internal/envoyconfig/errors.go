package envoyconfig

import (
	"errors"
	"strconv"
	"strings"
)

// ErrInvalid is matched by every error about the contents of a configuration.
var ErrInvalid = errors.New("envoyconfig: invalid configuration")

// Error is an error in one file. Its message is the same as in envoyproxy/ratelimit. It
// matches [ErrInvalid].
type Error struct {
	File    string // name of the file in its folder
	Line    int    // line in the file, from 1; 0 if the error has no single position
	Column  int    // column in the line, from 1; 0 if unknown
	Message string
	Hint    string // what is valid instead; may be empty
}

// Detail returns the position, the message and the hint, such as “basic.yaml:4:5:
// invalid rate limit unit 'minutes'; did you mean minute?”.
func (e *Error) Detail() string {
	text := e.Place() + ": " + e.Message
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Error returns the file name and the message, such as “basic.yaml: descriptor has
// empty key”, as in envoyproxy/ratelimit. Use [Error.Place] for the position.
func (e *Error) Error() string { return e.File + ": " + e.Message }

// Is reports whether target is [ErrInvalid].
func (e *Error) Is(target error) bool { return target == ErrInvalid }

// Place returns the position, such as “basic.yaml:4:5”. It omits an unknown line or
// column.
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

// Errors has the first error of each invalid file, in the order in which the files are
// read. It matches [ErrInvalid].
type Errors []*Error

// Error returns one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Detail returns one line for each error, with its position and its hint.
func (e Errors) Detail() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Detail()
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is [ErrInvalid].
func (e Errors) Is(target error) bool { return target == ErrInvalid }

// Warning describes configuration that is valid but probably does not have the intended
// effect.
type Warning struct {
	File    string
	Line    int
	Column  int
	Message string
}

// String returns the position and the message, such as “basic.yaml:7:9: …”.
func (w Warning) String() string { return place(w.File, w.Line, w.Column) + ": " + w.Message }
