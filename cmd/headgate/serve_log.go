package main

import (
	"context"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

const (
	mostWaiting = 1 << 20     // bytes of the log that wait for its reader; about as many may be on their way
	lastWords   = time.Second // how long the end waits for a reader
)

// levels are those that log.level may name.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// openLog begins the log that the configuration asks for, until what it returns is called. A reader that does not read stops nobody, and
// one that has gone ends nothing: what it does not take is lost, and counted.
func (s *service) openLog(to io.Writer) (end func()) {
	signal.Ignore(syscall.SIGPIPE) // a broken pipe at stderr ends a Go program otherwise
	s.lines = logs.NewQueue(to, mostWaiting)
	s.log = newLog(&s.config.Log, s.lines)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		_ = s.lines.Close(ctx) // nobody is left to tell
	}
}

// newLog is the log that the configuration asks for.
func newLog(c *config.Log, to io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: levels[c.Level]}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, opts))
	}
	return slog.New(slog.NewTextHandler(to, opts))
}
