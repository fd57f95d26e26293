package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// ruleFolder loads the Envoy rules in a folder, at the start and when files change.
type ruleFolder struct {
	rules *envoyRules
	watch func(path string) (*config.Watcher, error) // nil means config.Watch

	mu       sync.Mutex
	read     []envoyconfig.File // files at the last load
	err      string             // text of the error at the last load; empty if it succeeded
	active   []envoyconfig.File // files of the effective rules
	count    int                // number of effective rules
	settling config.Settling    // files that may be incomplete
}

// load reads the folder and applies all of its files or none. Unless always is set, it
// does nothing if the files have not changed since they were applied, it waits for files
// that may be incomplete, and it does not log the same error twice. It returns the time
// from now after which it must be called again, or 0 if it need not.
func (f *ruleFolder) load(always bool, now time.Time) (again time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files, err := envoyconfig.ReadFolder(string(f.rules.config.Config), folderOptions(f.rules.config))
	if err == nil && !always && slices.EqualFunc(files, f.read, sameFile) && f.err == "" {
		f.settling.Done()
		return 0
	}
	var parsed *envoyconfig.Config
	readErr := err
	if err == nil {
		parsed, err = envoyconfig.Parse(files, f.rules.parse)
	}
	if err == nil && !always && f.mustSettle(files, len(parsed.Rules()), now) {
		return f.settling.Again(now)
	}
	f.settling.Done()
	if readErr == nil {
		f.read = files
	}
	if err == nil {
		err = f.rules.useFiles(parsed, files)
	}
	f.rules.refused.Store(err != nil)
	if err == nil {
		f.err, f.active, f.count = "", files, len(parsed.Rules())
		return 0
	}
	if always || err.Error() != f.err {
		f.rules.logRefused(err)
	}
	f.err = err.Error()
	return 0
}

// mustSettle reports whether valid files must not take effect yet at the time now,
// because they may be incomplete: a file is truncated, or there are fewer rules than the
// effective ones. The parameter count is the number of rules.
func (f *ruleFolder) mustSettle(files []envoyconfig.File, count int, now time.Time) bool {
	if !slices.ContainsFunc(files, f.isTruncated) && count >= f.count {
		return false
	}
	wait, first := f.settling.Wait(digest(files), now)
	if wait && first {
		f.rules.log.Info("Envoy configuration may be incomplete; waiting for further changes", "rules", count, "previous", f.count)
	}
	return wait
}

func (f *ruleFolder) isTruncated(file envoyconfig.File) bool {
	return slices.ContainsFunc(f.active, func(active envoyconfig.File) bool {
		return active.Name == file.Name && config.IsTruncated(file.Content, active.Content)
	})
}

// digest returns a digest of the names and the contents of files.
func digest(files []envoyconfig.File) []byte {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %t %d\n", f.Name, f.Skipped, len(f.Content))
		h.Write(f.Content)
	}
	return h.Sum(nil)
}

func sameFile(a, b envoyconfig.File) bool {
	return a.Name == b.Name && a.Skipped == b.Skipped && bytes.Equal(a.Content, b.Content)
}

// follow loads the folder when its files change and on SIGHUP, until ctx ends.
func (f *ruleFolder) follow(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	f.run(ctx, hangups)
}

// run loads the folder when its files change and for each value of hangups, until ctx
// ends. If the watch fails, run loads the folder for the values of hangups only.
func (f *ruleFolder) run(ctx context.Context, hangups <-chan os.Signal) {
	watch := f.watch
	if watch == nil {
		watch = config.Watch
	}
	var changes <-chan struct{} // nil if the watch failed
	if w, err := watch(string(f.rules.config.Config)); err != nil {
		f.rules.log.Error("Envoy configuration watch failed", "error", err)
	} else {
		defer w.Close()
		changes = w.Changes()
	}
	settled := time.NewTimer(time.Hour)
	defer settled.Stop()
	again := f.load(false, time.Now()) // files may have changed since the start
	for {
		if again > 0 {
			settled.Reset(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			again = f.load(true, time.Now())
		case <-changes:
			again = f.load(false, time.Now())
		case <-settled.C:
			again = f.load(false, time.Now())
		}
	}
}
