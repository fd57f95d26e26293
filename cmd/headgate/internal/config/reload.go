package config

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// Live holds the effective configuration and reloads it when the file changes. An
// invalid file never takes effect: the last valid configuration stays effective. Create
// a Live with [Start]. It may be used concurrently.
type Live struct {
	sources Sources
	apply   func(*Config) error
	observe func(Reload)

	watch    func(path string) (*Watcher, error)
	started  *Config // configuration at the start of the process
	readOnce bool    // whether the file is a pipe or a device, which cannot be read again

	reloading sync.Mutex // held while a file is read and applied, which may take long
	text      []byte     // contents of the file when it was last read
	failed    string     // text of the last error, so that it is reported only once
	settling  Settling   // file that may be incomplete

	mu      sync.Mutex // protects current and status; a writer must also hold reloading
	current *Config
	status  Status
}

// Status is the state of the configuration at one time.
type Status struct {
	Path       string    // path of the file; empty if there is none
	Generation uint64    // number of the effective configuration, from 1
	Since      time.Time // time at which the effective configuration took effect
	Loads      uint64    // number of configurations that took effect, including the first
	Refused    uint64    // number of changed files that were invalid or could not be read
	Err        error     // error of the file's current contents; nil if they are effective
	Restart    []string  // changed settings that take effect only after a restart
}

// Reload is the result of reading a changed file.
type Reload struct {
	Status
	Warnings []string
	// Settling is true if the file did not take effect because it may be incomplete. It
	// takes effect later if it does not change before.
	Settling bool
}

// Start returns a Live whose effective configuration is first, which sources returned.
// For each later configuration it calls apply, which must either apply all of it, or
// return an error and change nothing. It calls observe after every reload, in the
// goroutine that reloads; observe may be nil.
func Start(
	sources Sources, first *Config, apply func(*Config) error, observe func(Reload),
) *Live {
	l := &Live{
		sources: sources, apply: apply, observe: observe, watch: Watch, started: first,
		status: Status{Path: sources.Path},
	}
	l.readOnce = sources.Path != "" && isStream(sources.Path)
	l.accept(first)
	return l
}

// isStream reports whether the file at path is a pipe or a device. Reading such a file
// may block, and reading it twice returns different contents.
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

// Refresh reloads the file if it has changed since it was last read. It reports a
// repeated error only once. A file that may be incomplete takes effect in a later call,
// if it does not change for 5 s.
func (l *Live) Refresh() { l.refresh(time.Now()) }

// refresh is Refresh at the time now. It returns the time after which it must be called
// again, or 0 if it need not.
func (l *Live) refresh(now time.Time) time.Duration { return l.reload(false, now) }

// Reload reads the file even if it has not changed, and always reports the result. A
// file that may be incomplete takes effect, too.
func (l *Live) Reload() { l.reload(true, time.Now()) }

func (l *Live) reload(always bool, now time.Time) (again time.Duration) {
	if l.sources.Path == "" || l.readOnce {
		return 0
	}
	l.reloading.Lock()
	r, report := l.load(always, now)
	again = l.settling.Again(now)
	l.reloading.Unlock()
	if report && l.observe != nil {
		l.observe(r)
	}
	return again
}

// load reads and applies the file. It returns false if there is nothing to report. If
// always is set, it applies and reports an unchanged or incomplete file, too.
func (l *Live) load(always bool, now time.Time) (Reload, bool) {
	text, err := l.read()
	if err != nil {
		l.settling.Done()
		return l.refuse(err, always)
	}
	unchanged := bytes.Equal(text, l.text) &&
		(l.failed == "" || l.status.Err != nil && errors.Is(l.status.Err, ErrInvalid))
	if unchanged && !always {
		l.settling.Done()
		return Reload{}, false
	}
	c, err := l.sources.load(text)
	if err == nil && !always && !bytes.Equal(text, l.text) && mayBeIncomplete(c, l.current) {
		if wait, first := l.settling.Wait(text, now); wait {
			return Reload{Status: l.Status(), Settling: true}, first
		}
	}
	l.text = text
	l.settling.Done()
	if err == nil {
		err = c.Refused(l.apply(c))
	}
	if err != nil {
		return l.refuse(err, always)
	}
	return Reload{Status: l.accept(c), Warnings: c.Warnings}, true
}

func (l *Live) read() ([]byte, error) {
	if isStream(l.sources.Path) {
		return nil, readError(l.sources.Path, errors.New("not a regular file"))
	}
	return ReadFile(l.sources.Path)
}

// refuse records the error of the file's contents. It returns false if the last error
// had the same text and always is not set.
func (l *Live) refuse(err error, always bool) (Reload, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := always || l.failed != err.Error()
	l.failed, l.status.Err = err.Error(), err
	if report {
		l.status.Refused++
	}
	return Reload{Status: l.status}, report
}

// Run reloads the file when it changes, and on every signal, until ctx ends. If the
// watch fails, Run calls unwatched with the error and reloads on signals only. If there
// is no file, or if the file is a pipe or a device, Run only waits until ctx ends.
func (l *Live) Run(ctx context.Context, signals <-chan os.Signal, unwatched func(error)) {
	if l.sources.Path == "" || l.readOnce {
		<-ctx.Done()
		return
	}
	var changes <-chan struct{} // nil if the watch failed
	if w, err := l.watch(l.sources.Path); err != nil {
		unwatched(err)
	} else {
		defer w.Close()
		changes = w.Changes()
	}
	settled := time.NewTimer(0) // the file may have changed since the start
	defer settled.Stop()
	for {
		again := time.Duration(0)
		select {
		case <-ctx.Done():
			return
		case <-signals:
			l.Reload()
			continue
		case <-changes:
			again = l.refresh(time.Now())
		case <-settled.C:
			again = l.refresh(time.Now())
		}
		if again > 0 {
			settled.Reset(again)
		}
	}
}
