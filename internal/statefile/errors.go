package statefile

import (
	"errors"
	"fmt"
	"io/fs"
)

// The kinds of errors. Each matches the errors of type [*Error] of that kind.
var (
	// ErrInUse: another process uses the folder.
	ErrInUse = errors.New("statefile: folder is in use")
	// ErrCorrupt: a file is damaged in a part that had been synced to the disk.
	ErrCorrupt = errors.New("statefile: corrupt state file")
	// ErrVersion: a file was written by a version with another format.
	ErrVersion = errors.New("statefile: unknown version of a state file")
	// ErrAccess: the folder or a file cannot be read or written.
	ErrAccess = errors.New("statefile: cannot access the folder")
)

// Error is an error of a folder or of one of its files. Nothing was overwritten or
// removed.
type Error struct {
	Path   string // folder or file
	Kind   error  // one of the errors of this package
	Detail string // what is wrong; may be empty if Err is set
	Advice string // next step
	Err    error  // cause; may be nil
}

// Error returns the path, what is wrong and the next step.
func (e *Error) Error() string {
	text := e.Path
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + causeText(e.Err)
	}
	return text + "; " + e.Advice
}

// causeText returns the text of an error without the path, which [Error] already has.
func causeText(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Op + ": " + path.Err.Error()
	}
	return err.Error()
}

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// corrupt returns the error for a damaged file.
func corrupt(path string, offset int64, format string, a ...any) *Error {
	return &Error{
		Path: path, Kind: ErrCorrupt, Detail: fmt.Sprintf("corrupt at byte %d: ", offset) + fmt.Sprintf(format, a...),
		Advice: startEmpty,
	}
}

const startEmpty = "restore the folder from a backup; or rename it to start with no state, so that every key is unused"

// accessError returns the error of an operation on a path, with advice for the frequent
// causes.
func accessError(path, action string, err error) *Error {
	advice := "check that the path is a folder that this user may read and write"
	switch {
	case errors.Is(err, errReadOnly):
		advice = "mount the file system for writing, or use another folder"
	case errors.Is(err, errDiskFull):
		advice = "free space on the disk; a new file needs as much as the state, in addition to the old one"
	case errors.Is(err, fs.ErrPermission):
		advice = "give this user the permission to read and write the folder and its files"
	}
	return &Error{Path: path, Kind: ErrAccess, Detail: action, Advice: advice, Err: err}
}
