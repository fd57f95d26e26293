package service

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

const (
	maxLogBytes = 1 << 20     // of the log that wait for a slow reader; about as many may be in the pipe
	flushTime   = time.Second // how long the end waits for that reader
)

// levels are the values of log.level.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// openLog makes the log of the configuration over a queue. A reader that does not read
// blocks nothing: lines that do not fit in the queue are dropped and counted. [closeLog]
// ends the queue.
func openLog(c *config.Log, to io.Writer) (*logs.Queue, *slog.Logger) {
	lines, opts := logs.NewQueue(to, maxLogBytes), &slog.HandlerOptions{Level: levels[c.Level]}
	if c.Format == "json" {
		return lines, slog.New(slog.NewJSONHandler(lines, opts))
	}
	return lines, slog.New(slog.NewTextHandler(lines, opts))
}

// closeLog writes what is queued, for at most flushTime.
func closeLog(lines *logs.Queue) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	_ = lines.Close(ctx) // there is no log left to report to
}
