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

	mu      sync.Mutex
	started *Config // what the process began with
	current *Config
	status  Status
	text    []byte // of the file that was looked at last
	failed  string // the last error, so that it is said once
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
	l.accept(first)
	return l
}

func (l *Live) accept(c *Config) {
	l.current, l.text, l.failed = c, c.text, ""
	l.status.Generation++
	l.status.Loads++
	l.status.Since, l.status.Err = time.Now(), nil
	l.status.Restart = NeedRestart(&l.started.File, &c.File)
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
	if l.sources.Path == "" {
		return
	}
	l.mu.Lock()
	r, tell := l.look(always)
	l.mu.Unlock()
	if tell && l.observe != nil {
		l.observe(r)
	}
}

func (l *Live) look(always bool) (Reload, bool) {
	text, err := ReadFile(l.sources.Path)
	if err == nil {
		if !always && bytes.Equal(text, l.text) && (l.failed == "" || l.status.Err != nil && errors.Is(l.status.Err, ErrInvalid)) {
			return Reload{}, false
		}
		l.text = text
		var c *Config
		if c, err = l.sources.load(text); err == nil {
			if err = l.apply(c); err == nil {
				l.accept(c)
				return Reload{l.status, c.Warnings}, true
			}
		}
	}
	told := l.failed == err.Error()
	l.failed, l.status.Err = err.Error(), err
	if !told || always {
		l.status.Refused++
	}
	return Reload{l.status, nil}, !told || always
}

// Run watches the file, and reloads it on every signal too, until ctx ends. Without a file it only waits.
func (l *Live) Run(ctx context.Context, signals <-chan os.Signal) error {
	if l.sources.Path == "" {
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
