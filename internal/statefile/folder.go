package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	filePrefix = "state-"
	newSuffix  = ".new" // of a file whose image is not complete
	lockName   = "lock"
)

// Folder is a folder that this process has locked.
type Folder struct {
	Path string
	lock *os.File
}

// Open locks the folder at path, which is created if it does not exist, with access for
// this user only. If another process has locked it, the error matches [ErrInUse].
func Open(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, accessError(path, "", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, accessError(path, "create the folder", err)
	}
	name := filepath.Join(path, lockName)
	lock, err := lockFile(name)
	if errors.Is(err, errLocked) {
		return nil, &Error{
			Path: path, Kind: ErrInUse, Detail: "the folder is in use by " + holderOf(name),
			Advice: "stop that process, or use another folder",
		}
	}
	if err != nil {
		return nil, accessError(path, "lock the folder", err)
	}
	f := &Folder{path, lock}
	if err := f.writePID(); err != nil {
		return nil, errors.Join(accessError(name, "", err), lock.Close())
	}
	return f, nil
}

var errLocked = errors.New("the file is locked")

// writePID writes the number of this process into the locked file, for the error of
// another process.
func (f *Folder) writePID() error {
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err := f.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holderOf returns a text with the number of the process that has locked a file.
func holderOf(name string) string {
	text, err := os.ReadFile(name)
	if pid, err2 := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && err2 == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}

// User returns a text with the process that uses the folder at path, or "" if no process
// does.
func User(path string) string {
	name := filepath.Join(path, lockName)
	if isLocked(name) {
		return holderOf(name)
	}
	return ""
}

// Close unlocks the folder.
func (f *Folder) Close() error {
	unlockFile(f.lock)
	return f.lock.Close()
}

// Newest returns the path of the newest file of the folder at path, or "" if it has none.
func Newest(path string) (string, error) {
	n, err := newest(path)
	if err != nil || n == 0 {
		return "", err
	}
	return filepath.Join(path, fileName(n)), nil
}

func fileName(n uint64) string { return fmt.Sprintf("%s%010d", filePrefix, n) }

// numberOf returns the number in the name of a file, or 0 for another file.
func numberOf(name string) uint64 {
	digits, ok := strings.CutPrefix(name, filePrefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || fileName(n) != name {
		return 0
	}
	return n
}

// newest returns the number of the newest complete file, or 0 if there is none.
func newest(path string) (latest uint64, err error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, accessError(path, "", err)
	}
	for _, e := range entries {
		latest = max(latest, numberOf(e.Name()))
	}
	return latest, nil
}

// RemoveOld removes the files that the newest complete file replaces, and files that were
// not completed. Call it after the newest file has been read.
func (f *Folder) RemoveOld() error {
	latest, err := newest(f.Path)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return accessError(f.Path, "", err)
	}
	for _, e := range entries {
		n := numberOf(strings.TrimSuffix(e.Name(), newSuffix))
		if n == 0 || n >= latest && !strings.HasSuffix(e.Name(), newSuffix) {
			continue
		}
		name := filepath.Join(f.Path, e.Name())
		if err := os.Remove(name); err != nil {
			return accessError(name, "", err)
		}
	}
	return nil
}
