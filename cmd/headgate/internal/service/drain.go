package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// settleTime is the time that servers have to accept the connections in the backlog.
const settleTime = 50 * time.Millisecond

// drain shuts the listeners down without failing a request: it reports
// draining, waits for load balancers to notice, and closes each listener after its last
// request. The admin and metrics listeners close last.
func drain(p *parts, listeners []listener) {
	for _, l := range listeners {
		if server, ok := l.server.(interface{ Drain() }); ok {
			server.Drain()
		}
	}
	p.health.Drain()
	p.observers.Draining()
	c := p.config
	p.log.Info("shutdown started", "delay", c.DrainDelay.String(), "timeout", c.ShutdownTimeout.String())
	time.Sleep(c.DrainDelay)
	others := slices.DeleteFunc(slices.Clone(listeners), listener.forOperators)
	operators := slices.DeleteFunc(slices.Clone(listeners), func(l listener) bool { return !l.forOperators() })
	drainBacklogs(p.log, others, c.ShutdownTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
	defer cancel()
	err := shutdown(ctx, others)
	if err := errors.Join(err, shutdown(ctx, operators)); err != nil {
		p.log.Warn("shutdown timeout exceeded; requests canceled", "error", err)
		return
	}
	p.log.Info("shutdown complete")
}

// drainBacklogs stops new connections, and then waits until the servers have had time
// to accept the connections in the backlogs.
func drainBacklogs(log *slog.Logger, listeners []listener, limit time.Duration) {
	for _, l := range listeners {
		if err := stopAccepting(l.ln); err != nil {
			log.Debug("socket filter not set; connections may be reset when the listener closes", "listener", l.name, "error", err)
		}
	}
	time.Sleep(min(settleTime, limit))
}
