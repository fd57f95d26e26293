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
	settleTime    = 50 * time.Millisecond // a change is complete after this time without events
	maxSettleTime = time.Second           // after the first event, whatever events follow
	pollInterval  = 10 * time.Second      // for file systems without notifications
	maxLinks      = 40                    // symbolic links followed in one path
)

// Watcher reports when the file at a path may have changed: when it was written or
// replaced, when a symbolic link in the path was replaced, as Kubernetes does, and
// when a folder in the path was removed or created. It also reports a change every
// ten seconds, because some file systems send no notifications and other programs may
// have used up the system's watches. It reports a burst of changes once, after its
// end. It is created with [Watch].
type Watcher struct {
	path    string
	open    func() (*fsnotify.Watcher, error)
	watcher *fsnotify.Watcher // nil while the system has no watch available
	events  chan fsnotify.Event
	errors  chan error
	changes chan struct{}
	close   sync.Once
	done    chan struct{}
	ended   chan struct{}
}

// Watch starts to watch the path of a file, or of a folder of files. The path need
// not exist.
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

// Changes returns the channel that receives a value after a change. Changes that were not
// received yet are reported once.
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
	var first time.Time // of the events that were not reported yet
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

// updateFolders watches the folders that the path leads through now, and no others.
func (w *Watcher) updateFolders() {
	if w.watcher == nil {
		watcher, err := w.open()
		if err != nil {
			return // the system has no watch available; the next poll tries again
		}
		w.watcher, w.events, w.errors = watcher, watcher.Events, watcher.Errors
	}
	wanted := folders(w.path)
	for _, folder := range w.watcher.WatchList() {
		if !slices.Contains(wanted, folder) {
			_ = w.watcher.Remove(folder) // fails if the folder was deleted
		}
	}
	for _, folder := range wanted {
		_ = w.watcher.Add(folder) // if it was deleted, a later poll adds it
	}
}

// folders returns the folders in which a change can change the file at path: the
// folder of the file and the folder of each symbolic link in the path. If the path is
// a folder, that folder is included. If a part of the path does not exist, the last
// existing folder is included.
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
			add(next)
			add(at)
		case after == "":
			add(at)
		}
		at, rest = next, after
	}
	return found
}
