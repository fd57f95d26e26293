package config

import (
	"time"

	"github.com/fsnotify/fsnotify"
)

// RefreshAt is Refresh at a time. It returns the time after which it must be called
// again.
func (l *Live) RefreshAt(now time.Time) time.Duration { return l.refresh(now) }

// Shape reports whether the JSON Schema refuses the file, too.
func (e *Error) Shape() bool { return e.shape }

// Folders is folders.
var Folders = folders

// WatchWhere is Watch with the function that opens the system's watcher.
func WatchWhere(path string, open func() (*fsnotify.Watcher, error)) *Watcher {
	return watch(path, open)
}

// FullFile is a file with all settings and keys; docs/reference/configuration.md
// contains it.
const FullFile = "testdata/full.yaml"

// Helps are all help texts by path.
var Helps = helps

// FailWatch makes [Live.Run] fail to watch the file.
func FailWatch(l *Live, err error) {
	l.watch = func(string) (*Watcher, error) { return nil, err }
}
