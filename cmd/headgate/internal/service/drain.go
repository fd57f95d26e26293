package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// settleTime is how long connections in the backlog have to be accepted.
const settleTime = 50 * time.Millisecond

// drain shuts the listeners down without failing a request: it reports that this instance is going away, waits for load
// balancers to notice, and closes each listener after its last request. Those for operators close last.
func drain(p *parts, listeners []listener) {
	for _, l := range listeners {
		if server, ok := l.server.(interface{ Drain() }); ok {
			server.Drain()
		}
	}
	p.health.Drain()
	p.observers.Draining()
	c := p.config
	p.log.Info("draining", "delay", c.DrainDelay.String(), "timeout", c.ShutdownTimeout.String())
	time.Sleep(c.DrainDelay)
	operators := slices.DeleteFunc(slices.Clone(listeners), func(l listener) bool { return !l.forOperators() })
	others := slices.DeleteFunc(listeners, listener.forOperators)
	drainBacklogs(p.log, others, c.ShutdownTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
	defer cancel()
	err := shutdown(ctx, others)
	if err := errors.Join(err, shutdown(ctx, operators)); err != nil {
		p.log.Warn("requests were cut off", "cause", err)
		return
	}
	p.log.Info("stopped")
}

// drainBacklogs accepts the connections that wait in the backlogs, and no later ones.
func drainBacklogs(log *slog.Logger, listeners []listener, limit time.Duration) {
	for _, l := range listeners {
		if err := stopAccepting(l.ln); err != nil {
			log.Debug("a door closes before whoever waits at it", "door", l.name, "cause", err)
		}
	}
	time.Sleep(min(settleTime, limit))
}
