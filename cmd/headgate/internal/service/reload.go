package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// startConfig returns a reloadable configuration whose changes are applied with apply and
// added to history. It logs the warnings of the first configuration.
func startConfig(
	sources config.Sources, first *config.Config, apply func(*config.Config) error, history *config.History, log *slog.Logger,
) (live *config.Live) {
	live = config.Start(sources, first, apply, func(r config.Reload) {
		if r.Err == nil && !r.Settling {
			history.Add(live.Config(), r.Status)
		}
		logReload(log, r)
	})
	history.Add(first, live.Status())
	logWarnings(log, first.Warnings)
	return live
}

// reloads reports whether SIGHUP reloads anything: the configuration file or a folder
// of Envoy rules. Otherwise, SIGHUP ends the process.
func (p *parts) reloads() bool {
	return p.live.Status().Path != "" || p.config.Envoy.Config != "" && p.config.Envoy.XDS.Server == ""
}

// followConfig starts to reload the configuration in the background, when its file
// changes and on SIGHUP. It does nothing if there is no file. The returned function
// stops reloading and waits for its end.
func followConfig(ctx context.Context, live *config.Live, log *slog.Logger) (end func()) {
	if live.Status().Path == "" {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended := inBackground(ctx, func(ctx context.Context) {
		live.Run(ctx, hangups, func(err error) { log.Error("configuration watch failed", "error", err) })
	})
	return func() { signal.Stop(hangups); ended() }
}

// logReload logs the result of a reload.
func logReload(log *slog.Logger, r config.Reload) {
	logWarnings(log, r.Warnings)
	if r.Settling {
		log.Info("configuration file may be incomplete; waiting for further changes", "file", r.Path, "generation", r.Generation,
			"advice", "it takes effect if it does not change for 5 s; replace files by rename")
		return
	}
	if r.Err == nil {
		log.Info("configuration loaded", "file", r.Path, "generation", r.Generation)
		if len(r.Restart) > 0 {
			log.Warn("restart required for these settings", "settings", strings.Join(r.Restart, ", "))
		}
		return
	}
	var all config.Errors
	if !errors.As(r.Err, &all) {
		log.Error("configuration reload failed; previous configuration stays in effect", "file", r.Path, "generation", r.Generation, "error", r.Err)
		return
	}
	log.Error("configuration reload failed; previous configuration stays in effect", "file", r.Path, "generation", r.Generation, "errors", len(all))
	for _, one := range all[:min(len(all), maxLoggedErrors)] {
		log.Error("configuration error", "error", one.Error())
	}
}

func logWarnings(log *slog.Logger, warnings []string) {
	for _, w := range warnings {
		log.Warn("configuration warning", "warning", w)
	}
}
