package statefile

import (
	"errors"
	"os"
	"syscall"
)

// errSharingViolation is ERROR_SHARING_VIOLATION.
const errSharingViolation = syscall.Errno(32)

// Causes for which an error has special advice: ERROR_WRITE_PROTECT, ERROR_DISK_FULL.
var (
	errReadOnly error = syscall.Errno(19)
	errDiskFull error = syscall.Errno(112)
)

// lockFile opens the file at name so that no other process can open it for writing.
func lockFile(name string) (*os.File, error) { return openShared(name, syscall.OPEN_ALWAYS) }

func openShared(name string, disposition uint32) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	handle, err := syscall.CreateFile(path, syscall.GENERIC_READ|syscall.GENERIC_WRITE, syscall.FILE_SHARE_READ,
		nil, disposition, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errSharingViolation) {
		return nil, errLocked
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(handle), name), nil
}

// isLocked reports whether a process has locked the file at name.
func isLocked(name string) bool {
	file, err := openShared(name, syscall.OPEN_EXISTING)
	if err == nil {
		_ = file.Close()
	}
	return errors.Is(err, errLocked)
}

// syncFolder does nothing: Windows has no such operation.
func syncFolder(string) error { return nil }

// unlockFile does nothing: closing the file unlocks it.
func unlockFile(*os.File) {}
