package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// settleTime is the minimum time that servers have to accept the connections in the
// backlog, and maxDrainTime the maximum.
const (
	settleTime   = 50 * time.Millisecond
	maxDrainTime = time.Second
)

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
	drainBacklogs(p.log, others, min(c.ShutdownTimeout, maxDrainTime))
	ctx, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
	defer cancel()
	err := shutdown(ctx, others)
	if err := errors.Join(err, shutdown(ctx, operators)); err != nil {
		p.log.Warn("shutdown timeout exceeded; requests canceled", "error", err)
		return
	}
	p.log.Info("shutdown complete")
}

// drainBacklogs stops new connections, and then waits until the servers have accepted
// the connections in the backlogs, at most for the time in limit. On a busy machine, or
// after a pause of the process, settleTime may not be enough.
func drainBacklogs(log *slog.Logger, listeners []listener, limit time.Duration) {
	for _, l := range listeners {
		if err := stopAccepting(l.ln); err != nil {
			log.Debug("socket filter not set; connections may be reset when the listener closes", "listener", l.name, "error", err)
		}
	}
	begin := time.Now()
	time.Sleep(min(settleTime, limit))
	isWaiting := func(l listener) bool { return backlogLength(l.ln) > 0 }
	for time.Since(begin) < limit && slices.ContainsFunc(listeners, isWaiting) {
		time.Sleep(time.Millisecond)
	}
}
