package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settleTime    = 50 * time.Millisecond // time without further events after which a change is complete
	maxSettleTime = time.Second           // maximum time from the first event until the change is reported
	pollInterval  = 10 * time.Second      // time between two polls, for file systems without notifications
	maxLinks      = 40                    // maximum number of symbolic links that are followed in one path
)

// Watcher reports when the file at a path may have changed: when the file was written
// or replaced, when a symbolic link in the path was replaced, as Kubernetes does, or
// when a folder in the path was removed or created. It also reports a change every ten
// seconds, because some file systems send no notifications, and other programs may have
// used up the system's watches. A burst of changes is reported once, after its end.
// Create a Watcher with [Watch].
type Watcher struct {
	path    string
	open    func() (*fsnotify.Watcher, error)
	watcher *fsnotify.Watcher // nil while the system provides no further watches
	events  chan fsnotify.Event
	errors  chan error
	changes chan struct{}
	close   sync.Once
	done    chan struct{}
	ended   chan struct{}
}

// Watch starts to watch a path, which may be that of a file or of a folder of files.
// The path does not have to exist.
func Watch(path string) (*Watcher, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("config: watch: %w", err)
	}
	return watch(abs, fsnotify.NewWatcher), nil
}

func watch(path string, open func() (*fsnotify.Watcher, error)) *Watcher {
	w := &Watcher{
		path: path, open: open, changes: make(chan struct{}, 1),
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	w.updateFolders()
	go w.run()
	return w
}

// Changes returns the channel that receives a value after a change. Several changes are
// combined if the channel has not been read in between.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Close stops the watcher and waits until its goroutine has ended.
func (w *Watcher) Close() error {
	var err error
	w.close.Do(func() {
		close(w.done)
		if <-w.ended; w.watcher != nil {
			err = w.watcher.Close()
		}
	})
	return err
}

func (w *Watcher) run() {
	defer close(w.ended)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	settled := time.NewTimer(0)
	<-settled.C
	var first time.Time // time of the first event that has not been reported yet
	for {
		select {
		case <-w.done:
			return
		case <-poll.C:
			w.updateFolders()
			w.notify()
		case _, open := <-w.events:
			if !open {
				return
			}
			if first.IsZero() {
				first = time.Now()
			}
			settled.Reset(max(0, min(settleTime, maxSettleTime-time.Since(first))))
		case err, open := <-w.errors:
			if !open {
				return
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				settled.Reset(0)
			}
		case <-settled.C:
			first = time.Time{}
			w.updateFolders()
			w.notify()
		}
	}
}

func (w *Watcher) notify() {
	select {
	case w.changes <- struct{}{}:
	default:
	}
}

// updateFolders watches the folders that the path currently leads through, and stops
// watching all other folders.
func (w *Watcher) updateFolders() {
	if w.watcher == nil {
		watcher, err := w.open()
		if err != nil {
			return // the system provides no further watches; the next poll tries again
		}
		w.watcher, w.events, w.errors = watcher, watcher.Events, watcher.Errors
	}
	wanted := folders(w.path)
	for _, folder := range w.watcher.WatchList() {
		if !slices.Contains(wanted, folder) {
			_ = w.watcher.Remove(folder) // fails if the folder was deleted; the error is ignored
		}
	}
	for _, folder := range wanted {
		_ = w.watcher.Add(folder) // if the folder was deleted, a later poll adds it
	}
}

// folders returns the folders to watch for changes to the file at path: the folder that
// contains the file, and the folder of each symbolic link in the path. If the path is a
// folder, it and its subfolders are included. If a part of the path does not exist, the
// last existing folder is included.
func folders(path string) []string {
	var found []string
	add := func(folder string) {
		if !slices.Contains(found, folder) {
			found = append(found, folder)
		}
	}
	const separator = string(filepath.Separator)
	links := 0
	at, rest := separator, strings.TrimPrefix(filepath.Clean(path), separator)
	for rest != "" {
		name, after, _ := strings.Cut(rest, separator)
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			add(at)
			return found
		case info.Mode()&os.ModeSymlink != 0:
			add(at)
			target, err := os.Readlink(next)
			if links++; err != nil || links > maxLinks {
				return found
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(at, target)
			}
			at, rest = separator, strings.TrimPrefix(filepath.Join(target, after), separator)
			continue
		case after == "" && info.IsDir():
			for _, folder := range subfolders(next) {
				add(folder)
			}
			add(at)
		case after == "":
			add(at)
		}
		at, rest = next, after
	}
	return found
}

// maxSubfolders is the maximum number of subfolders with notifications. Changes in others
// are detected by polling.
const maxSubfolders = 1000

// subfolders returns a folder and all folders below it, except for those whose names
// begin with two dots, which Kubernetes uses for versions.
func subfolders(folder string) (all []string) {
	_ = filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return nil // unreadable folders are reported when they are loaded
		case len(all) > maxSubfolders:
			return filepath.SkipAll
		case strings.HasPrefix(entry.Name(), ".."):
			return filepath.SkipDir
		}
		all = append(all, path)
		return nil
	})
	return all
}
