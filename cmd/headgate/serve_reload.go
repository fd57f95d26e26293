package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// mostLogged bounds how many errors of one file are logged; headgate config check tells all.
const mostLogged = 10

// follow keeps the configuration's file in force, until what it returns is called. Without a file there is nothing to follow, and
// SIGHUP ends the process as it does any other.
func (s *service) follow(ctx context.Context) (end func()) {
	s.live = config.Start(s.sources, s.config, s.use, s.reloaded)
	s.warn(s.config.Warnings)
	if s.sources.Path == "" {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended := inBackground(ctx, func(ctx context.Context) {
		if err := s.live.Run(ctx, hangups); err != nil {
			s.log.Error("the configuration is not watched", "cause", err)
		}
	})
	return func() { signal.Stop(hangups); ended() }
}

// use puts a configuration into force for the requests that come.
func (s *service) use(c *config.Config) error { return s.engine.Use(c.Engine()) }

// reloaded tells what came of a reload.
func (s *service) reloaded(r config.Reload) {
	s.warn(r.Warnings)
	if r.Err == nil {
		s.log.Info("configuration loaded", "file", r.Path, "generation", r.Generation)
		if len(r.Restart) > 0 {
			s.log.Warn("these settings hold from the next start on", "settings", strings.Join(r.Restart, ", "))
		}
		return
	}
	var all config.Errors
	if !errors.As(r.Err, &all) {
		s.log.Error("configuration refused: the last good one stays", "file", r.Path, "generation", r.Generation, "cause", r.Err)
		return
	}
	s.log.Error("configuration refused: the last good one stays", "file", r.Path, "generation", r.Generation, "errors", len(all))
	for _, one := range all[:min(len(all), mostLogged)] {
		s.log.Error("configuration", "error", one.Error())
	}
}

func (s *service) warn(warnings []string) {
	for _, w := range warnings {
		s.log.Warn("configuration", "warning", w)
	}
}
