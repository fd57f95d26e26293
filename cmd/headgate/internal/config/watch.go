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
	settleTime = 50 * time.Millisecond // without another event: whoever writes has written
	settleMost = time.Second           // after the first event, whatever else comes
	lookEvery  = 10 * time.Second      // for file systems that tell nobody
	mostLinks  = 40                    // followed in one path
)

// Watcher tells when what lies at a path may have become other: when the file was written or replaced, when a symbolic link on the way
// was, as Kubernetes does it, when a folder on the way went or came back; and every ten seconds, for file systems that tell nobody and
// systems whose watches others have used up. A burst of changes is told once it is over. It is made with [Watch].
type Watcher struct {
	path    string
	open    func() (*fsnotify.Watcher, error)
	events  *fsnotify.Watcher // nil while the system has none to give
	told    chan fsnotify.Event
	failed  chan error
	changes chan struct{}
	close   sync.Once
	done    chan struct{}
	ended   chan struct{}
}

// Watch begins to watch a path, of a file or of a folder of files; neither needs to be there.
func Watch(path string) (*Watcher, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("config: watch: %w", err)
	}
	return watch(abs, fsnotify.NewWatcher), nil
}

func watch(path string, open func() (*fsnotify.Watcher, error)) *Watcher {
	w := &Watcher{path: path, open: open, changes: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{})}
	w.follow()
	go w.run()
	return w
}

// Changes is where each change is told. What nobody has received yet is told once.
func (w *Watcher) Changes() <-chan struct{} { return w.changes }

// Close ends the watching, and waits for that.
func (w *Watcher) Close() error {
	var err error
	w.close.Do(func() {
		close(w.done)
		if <-w.ended; w.events != nil {
			err = w.events.Close()
		}
	})
	return err
}

func (w *Watcher) run() {
	defer close(w.ended)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	settled := time.NewTimer(0)
	<-settled.C
	var first time.Time // event that was not told yet
	for {
		select {
		case <-w.done:
			return
		case <-look.C:
			w.follow()
			w.tell()
		case _, open := <-w.told:
			if !open {
				return
			}
			if first.IsZero() {
				first = time.Now()
			}
			settled.Reset(max(0, min(settleTime, settleMost-time.Since(first))))
		case err, open := <-w.failed:
			if !open {
				return
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				settled.Reset(0)
			}
		case <-settled.C:
			first = time.Time{}
			w.follow()
			w.tell()
		}
	}
}

func (w *Watcher) tell() {
	select {
	case w.changes <- struct{}{}:
	default:
	}
}

// follow watches the folders that lead to the path now, and no others.
func (w *Watcher) follow() {
	if w.events == nil {
		events, err := w.open()
		if err != nil {
			return // others hold all there are; the next look asks again
		}
		w.events, w.told, w.failed = events, events.Events, events.Errors
	}
	wanted := folders(w.path)
	for _, was := range w.events.WatchList() {
		if !slices.Contains(wanted, was) {
			_ = w.events.Remove(was) // it may be gone
		}
	}
	for _, folder := range wanted {
		_ = w.events.Add(folder) // one that has just gone is found again by and by
	}
}

// folders are those in which a change can make another file lie at path: that of the file, and that of each symbolic link on the way;
// of a path that ends early, the last folder that is there. A folder at the path is one of them.
func folders(path string) []string {
	var found []string
	add := func(folder string) {
		if !slices.Contains(found, folder) {
			found = append(found, folder)
		}
	}
	links := 0
	at, rest := string(filepath.Separator), strings.TrimPrefix(filepath.Clean(path), string(filepath.Separator))
	for rest != "" {
		name, after, _ := strings.Cut(rest, string(filepath.Separator))
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			add(at)
			return found
		case info.Mode()&os.ModeSymlink != 0:
			add(at)
			target, err := os.Readlink(next)
			if links++; err != nil || links > mostLinks {
				return found
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(at, target)
			}
			at, rest = string(filepath.Separator), strings.TrimPrefix(filepath.Join(target, after), string(filepath.Separator))
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
