package config

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// Live has the effective configuration and reloads it when the file changes. An
// invalid file never takes effect: the last valid configuration stays. It is created
// with [Start] and may be used concurrently.
type Live struct {
	sources Sources
	apply   func(*Config) error
	observe func(Reload)

	started  *Config // at the start of the process
	readOnce bool    // the file is a pipe or a device and cannot be read again

	reloading sync.Mutex // while a file is read and applied, which may take long
	text      []byte     // of the file that was read last
	failed    string     // the last error, to report it once

	mu      sync.Mutex // protects the fields below; writers also hold reloading
	current *Config
	status  Status
}

// Status is the state of the configuration.
type Status struct {
	Path       string    // of the file; empty if there is none
	Generation uint64    // number of the effective configuration, from 1
	Since      time.Time // when it took effect
	Loads      uint64    // configurations that took effect, including the first
	Refused    uint64    // configurations that did not
	Err        error     // why the file's current contents are not effective; nil if they are
	Restart    []string  // settings that differ in the file and require a restart
}

// Reload is the result of reading a changed file.
type Reload struct {
	Status
	Warnings []string
}

// Start returns a Live with first, the effective configuration that sources returned.
// It calls apply for each later configuration: apply applies all of it, or returns an
// error and changes nothing. It calls observe after every reload, in the goroutine
// that reloads; observe may be nil.
func Start(
	sources Sources, first *Config, apply func(*Config) error, observe func(Reload),
) *Live {
	l := &Live{
		sources: sources, apply: apply, observe: observe, started: first,
		status: Status{Path: sources.Path},
	}
	l.readOnce = sources.Path != "" && isStream(sources.Path)
	l.accept(first)
	return l
}

// isStream reports whether a path is a pipe or a device. Reading one may block, and
// reading it twice returns different contents.
func isStream(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// accept records a configuration that has taken effect.
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

// Config returns the effective configuration. The caller must not change it.
func (l *Live) Config() *Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// Status returns the current status.
func (l *Live) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Refresh reloads the file if it has changed since it was last read. It reports the
// same error only once.
func (l *Live) Refresh() { l.reload(false) }

// Reload reads the file, changed or not, and always reports the result.
func (l *Live) Reload() { l.reload(true) }

func (l *Live) reload(always bool) {
	if l.sources.Path == "" || l.readOnce {
		return
	}
	l.reloading.Lock()
	r, report := l.load(always)
	l.reloading.Unlock()
	if report && l.observe != nil {
		l.observe(r)
	}
}

// load reads and applies the file. It returns false if there is nothing to report.
func (l *Live) load(always bool) (Reload, bool) {
	text, err := l.read()
	if err != nil {
		return l.refuse(err, always)
	}
	unchanged := bytes.Equal(text, l.text) &&
		(l.failed == "" || l.status.Err != nil && errors.Is(l.status.Err, ErrInvalid))
	if unchanged && !always {
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
	if isStream(l.sources.Path) {
		return nil, readError(l.sources.Path, errors.New("not a regular file"))
	}
	return ReadFile(l.sources.Path)
}

// refuse records why the file's contents have not taken effect. It returns false if
// the error is the same as the last.
func (l *Live) refuse(err error, always bool) (Reload, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := always || l.failed != err.Error()
	l.failed, l.status.Err = err.Error(), err
	if report {
		l.status.Refused++
	}
	return Reload{l.status, nil}, report
}

// Run watches the file and reloads it when it changes and on every signal, until ctx
// ends. If there is no file, or the file is a pipe or a device, Run only waits for
// ctx.
func (l *Live) Run(ctx context.Context, signals <-chan os.Signal) error {
	if l.sources.Path == "" || l.readOnce {
		<-ctx.Done()
		return nil
	}
	w, err := Watch(l.sources.Path)
	if err != nil {
		return err
	}
	defer w.Close()
	l.Refresh() // changes between the start and now
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
