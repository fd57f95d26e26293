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
	maxLogBytes = 1 << 20     // bytes of the log that are queued while its reader is slow; the pipe may contain as many
	flushTime   = time.Second // maximum time that the shutdown waits for that reader
)

// levels are the values of log.level.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// openLog creates a logger that writes to a queue. A reader of the log that blocks does
// not block the service: lines that do not fit in the queue are dropped and counted.
// Use [closeLog] to close the queue.
func openLog(c *config.Log, to io.Writer) (*logs.Queue, *slog.Logger) {
	lines, opts := logs.NewQueue(to, maxLogBytes), &slog.HandlerOptions{Level: levels[c.Level]}
	if c.Format == "json" {
		return lines, slog.New(slog.NewJSONHandler(lines, opts))
	}
	return lines, slog.New(slog.NewTextHandler(lines, opts))
}

// closeLog writes the queued lines, for at most flushTime.
func closeLog(lines *logs.Queue) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	_ = lines.Close(ctx) // an error is ignored, because it cannot be logged
}
