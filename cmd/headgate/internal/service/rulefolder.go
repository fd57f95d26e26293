package service

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// ruleFolder loads the Envoy rules in a folder, at the start and when files change.
type ruleFolder struct {
	rules *envoyRules
	watch func(path string) (*config.Watcher, error) // nil means config.Watch

	mu   sync.Mutex
	read []envoyconfig.File // files at the last load
	err  string             // text of the error at the last load; empty if it succeeded
}

// load reads the folder and applies all of its files or none. Unless always is set, it
// does nothing if the files have not changed since they were applied, and it does not
// log the same error twice.
func (f *ruleFolder) load(always bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files, err := envoyconfig.ReadFolder(string(f.rules.config.Config), folderOptions(f.rules.config))
	if err == nil && !always && slices.EqualFunc(files, f.read, sameFile) && f.err == "" {
		return
	}
	if err == nil {
		f.read = files
		err = f.rules.useFiles(files)
	}
	f.rules.refused.Store(err != nil)
	if err == nil {
		f.err = ""
		return
	}
	if always || err.Error() != f.err {
		f.rules.logRefused(err)
	}
	f.err = err.Error()
}

func sameFile(a, b envoyconfig.File) bool {
	return a.Name == b.Name && a.Skipped == b.Skipped && string(a.Content) == string(b.Content)
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
	f.load(false) // files may have changed since the start
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			f.load(true)
		case <-changes:
			f.load(false)
		}
	}
}
