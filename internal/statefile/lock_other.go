//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package statefile

import (
	"errors"
	"os"
)

// Causes for which an error has special advice: none.
var (
	errReadOnly = errors.New("read-only file system")
	errDiskFull = errors.New("disk full")
)

// lockFile returns an error that matches [errors.ErrUnsupported].
func lockFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func isLocked(string) bool { return false }

func syncFolder(string) error { return nil }

// unlockFile does nothing: closing the file unlocks it.
func unlockFile(*os.File) {}
