package config

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// Live keeps a configuration in force, and takes another in its place when the file becomes other and is fine. What is wrong never
// takes effect: the last good one stays. It is made with [Start] and may be used concurrently.
type Live struct {
	sources Sources
	apply   func(*Config) error
	observe func(Reload)

	started *Config // what the process began with
	once    bool    // the file is a pipe: what it held is in force, and it holds nothing more

	reloading sync.Mutex // while the file is read and put into force, which can take its time
	text      []byte     // of the file that was looked at last
	failed    string     // the last error, so that it is said once

	mu      sync.Mutex // to write it, both are held
	current *Config
	status  Status
}

// Status is how it stands with the configuration.
type Status struct {
	Path       string    // the file; empty if there is none
	Generation uint64    // of configurations that have taken effect, from 1
	Since      time.Time // when the last one did
	Loads      uint64    // how many configurations have taken effect, the first too
	Refused    uint64    // how many did not
	Err        error     // why what the file holds now is not in force; nil if it is
	Restart    []string  // settings that are other in the file, and hold from the next start on
}

// Reload is what came of one look at the file that was not the same as before.
type Reload struct {
	Status
	Warnings []string
}

// Start begins with a configuration that is in force already, as sources gave it. For another one apply is called, which either puts
// all of it into force, or changes nothing and says why. Observe hears of every reload, on the goroutine that made it; it may be nil.
func Start(sources Sources, first *Config, apply func(*Config) error, observe func(Reload)) *Live {
	l := &Live{sources: sources, apply: apply, observe: observe, started: first, status: Status{Path: sources.Path}}
	l.once = sources.Path != "" && endless(sources.Path)
	l.accept(first)
	return l
}

// endless reports whether what lies at a path is a pipe or a device: reading may never end, and a second time finds something else.
func endless(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// accept holds what has taken effect.
func (l *Live) accept(c *Config) Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.text, l.failed = c, c.text, ""
	l.status.Generation++
	l.status.Loads++
	l.status.Since, l.status.Err = time.Now(), nil
	l.status.Restart = NeedRestart(&l.started.File, &c.File)
	return l.status
}

// Config is what is in force. It must not be changed.
func (l *Live) Config() *Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// Status is how it stands.
func (l *Live) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Refresh looks whether the file is other than at the last look, and reloads it then. An error that stays is told once.
func (l *Live) Refresh() { l.reload(false) }

// Reload reads the file again, whatever was there before, and tells what came of it.
func (l *Live) Reload() { l.reload(true) }

func (l *Live) reload(always bool) {
	if l.sources.Path == "" || l.once {
		return
	}
	l.reloading.Lock()
	r, tell := l.look(always)
	l.reloading.Unlock()
	if tell && l.observe != nil {
		l.observe(r)
	}
}

func (l *Live) look(always bool) (Reload, bool) {
	text, err := l.read()
	if err != nil {
		return l.refuse(err, always)
	}
	if !always && bytes.Equal(text, l.text) && (l.failed == "" || l.status.Err != nil && errors.Is(l.status.Err, ErrInvalid)) {
		return Reload{}, false
	}
	l.text = text
	c, err := l.sources.load(text)
	if err == nil {
		err = c.Refused(l.apply(c))
	}
	if err != nil {
		return l.refuse(err, always)
	}
	return Reload{l.accept(c), c.Warnings}, true
}

func (l *Live) read() ([]byte, error) {
	if endless(l.sources.Path) {
		return nil, readError(l.sources.Path, errors.New("it is no file any more"))
	}
	return ReadFile(l.sources.Path)
}

// refuse holds why what the file holds has not taken effect, and says whether that is news.
func (l *Live) refuse(err error, always bool) (Reload, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.failed == err.Error()
	l.failed, l.status.Err = err.Error(), err
	if !told || always {
		l.status.Refused++
	}
	return Reload{l.status, nil}, !told || always
}

// Run watches the file, and reloads it on every signal too, until ctx ends. Without a file, and with a pipe in its place, it only waits.
func (l *Live) Run(ctx context.Context, signals <-chan os.Signal) error {
	if l.sources.Path == "" || l.once {
		<-ctx.Done()
		return nil
	}
	w, err := Watch(l.sources.Path)
	if err != nil {
		return err
	}
	defer w.Close()
	l.Refresh() // what came between the start and now
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
			l.Reload()
		case <-w.Changes():
			l.Refresh()
		}
	}
}
