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

// ruleFolder applies the files of a folder, at the start and whenever they change.
type ruleFolder struct {
	rules *envoyRules

	mu   sync.Mutex
	read []envoyconfig.File // at the last load
	err  string             // of the last load
}

// load reads the folder and applies its files, all of them or none. It does nothing if
// they are as at the last load and were applied, unless always is set; nor does it log an
// error again that stays the same.
func (f *ruleFolder) load(always bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files, err := envoyconfig.ReadFolder(string(f.rules.config.Config), f.rules.config.DotFiles)
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
	return a.Name == b.Name && string(a.Content) == string(b.Content)
}

// follow loads the folder when its files change, and on SIGHUP, until ctx ends.
func (f *ruleFolder) follow(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	w, err := config.Watch(string(f.rules.config.Config))
	if err != nil {
		f.rules.log.Error("Envoy configuration watch failed", "error", err)
		<-ctx.Done() // until then SIGHUP does not end the process
		return
	}
	defer w.Close()
	f.load(false) // what changed between the start and now
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			f.load(true)
		case <-w.Changes():
			f.load(false)
		}
	}
}
