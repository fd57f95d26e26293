package config

import "github.com/fsnotify/fsnotify"

// Shape reports whether the JSON Schema says so, too.
func (e *Error) Shape() bool { return e.shape }

// Folders is folders.
var Folders = folders

// WatchWhere is Watch where open gives what a system watches with.
func WatchWhere(path string, open func() (*fsnotify.Watcher, error)) *Watcher {
	return watch(path, open)
}

// FullFile is a file that names everything there is; docs/configuration.md shows it.
const FullFile = "testdata/full.yaml"

// Helps are all help texts by path.
var Helps = helps
