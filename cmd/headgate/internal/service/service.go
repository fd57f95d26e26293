// Package service builds the rate limit service from its settings, and runs it: the HTTP
// API, the Redis-compatible endpoint, Envoy's rate limit service, and the listeners for
// operators.
//
// [New] builds each part from the parts before it: log, observers, store, engine, Envoy's
// rules, the configuration that is reloaded, health. Every part is complete once it is
// made. [Service.Run] opens the listeners over these parts.
package service

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/hangup"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// Options configure a service. All fields are required.
type Options struct {
	Config  *config.Config // configuration that was loaded from Sources
	Sources config.Sources // sources that are read again for a reload
	Version string         // version of this program, for metrics and Redis clients
	Log     io.Writer      // output of the log; if writing blocks, lines are dropped and counted
}

// Service is a rate limit service. Create it with [New], and call [Service.Run] and
// [Service.Close] once each.
type Service struct {
	parts     *parts
	seen      *observers
	store     headgate.Store
	lines     *logs.Queue
	telemetry *telemetry
}

// New creates a service. It opens the store and reads Envoy's rules, but opens no
// listener. An error is caused by a setting, and may be [config.Errors].
func New(opts *Options) (*Service, error) {
	lines, log := openLog(&opts.Config.Log, opts.Log)
	seen := newObservers(opts.Config, opts.Version, log, lines.Dropped)
	export, err := startTelemetry(opts.Config, opts.Version, log, seen)
	if err != nil {
		closeLog(lines)
		return nil, err
	}
	store, err := openStore(opts.Config, seen.tracer, LogStoreEvents(log), seen, seen.outages)
	if err != nil {
		export.close()
		closeLog(lines)
		return nil, err
	}
	logRestored(log, store)
	s := &Service{nil, seen, store, lines, export}
	if err := seen.startEvents(&opts.Config.Events, store, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.parts, err = newParts(opts.Config, opts.Sources, opts.Version, log, seen, store); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the store and writes the queued lines of the log. Call it after
// [Service.Run] has returned.
func (s *Service) Close() error {
	defer closeLog(s.lines)
	defer s.telemetry.close()
	s.seen.endEvents()
	return s.store.Close()
}

// Run serves requests until ctx ends. It then waits for the requests in flight, at most
// for shutdown_timeout. If a control plane is configured, Run waits for its rules
// before it opens the listeners. It returns an error if a listener cannot be opened or
// fails.
func (s *Service) Run(ctx context.Context) error {
	defer addBallast()()
	defer followConfig(ctx, s.parts.live, s.parts.log)()
	defer inBackground(ctx, s.parts.envoy.follow)()
	s.parts.overrides.Load(ctx)
	defer inBackground(ctx, s.parts.overrides.Run)()
	defer inBackground(ctx, s.parts.observers.timeline.Run)()
	defer inBackground(ctx, s.parts.observers.bans.Run)()
	if client := s.telemetry.statsd(s.parts); client != nil {
		defer inBackground(context.WithoutCancel(ctx), client.Run)() // also during the shutdown
	}
	if !s.parts.reloads() {
		hangup.Release()
	}
	if !s.parts.envoy.awaitRules(ctx) {
		return nil
	}
	listeners, err := openAll(ctx, s.parts)
	if err != nil {
		return err
	}
	return s.serve(ctx, listeners)
}

// serve serves the listeners until ctx ends or one of the servers fails, and then shuts
// down all servers.
func (s *Service) serve(ctx context.Context, listeners []listener) error {
	c, log := s.parts.config, s.parts.log
	ended := serveAll(listeners)
	notifySystemd(log, systemdReady)
	first, end := warmUp(ctx, s.parts.engine)
	defer end()
	logStart(s.parts, listeners)
	logFirstConnection(ctx, log, first)
	if c.Log.Format == "text" && levels[c.Log.Level] <= slog.LevelInfo {
		writeHints(s.lines, listeners, &c.RESP, s.parts.gates.http.HasTokens())
	}
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // from now on, a second signal ends the process
	notifySystemd(log, systemdStopping)
	drain(s.parts, listeners)
	return errors.Join(err, <-ended)
}

// inBackground calls work in a new goroutine. The returned function cancels the context
// of work and waits until work has returned.
func inBackground(ctx context.Context, work func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); work(ctx) }()
	return func() { cancel(); <-done }
}
