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
	"os"
	"os/signal"
	"syscall"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// Options are what a service is built from. All fields are required.
type Options struct {
	Config  *config.Config // read from Sources
	Sources config.Sources // read again for a reload
	Version string         // of this program, for metrics and Redis clients
	Log     io.Writer      // a reader that does not read blocks nothing: lines are dropped and counted
}

// Service is a rate limit service. It is made with [New]; [Service.Run] and
// [Service.Close] are called once each.
type Service struct {
	parts *parts
	store headgate.Store
	lines *logs.Queue
}

// New builds a service. It opens the store and reads Envoy's rules, and listens nowhere
// yet. An error is that of a setting, and may be [config.Errors].
func New(opts *Options) (*Service, error) {
	lines, log := openLog(&opts.Config.Log, opts.Log)
	seen := newObservers(opts.Config, opts.Version, log, lines.Dropped)
	store, err := openStore(opts.Config, LogStoreEvents(log), seen)
	if err != nil {
		closeLog(lines)
		return nil, err
	}
	p, err := newParts(opts.Config, opts.Sources, opts.Version, log, seen, store)
	s := &Service{p, store, lines}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the store and writes what is left of the log. It is called after
// [Service.Run] has returned.
func (s *Service) Close() error {
	defer closeLog(s.lines)
	return s.store.Close()
}

// Run answers requests until ctx ends, and then until those in flight are answered, or
// shutdown_timeout has passed. If a control plane is configured it waits for its rules
// before it listens. It returns an error if a listener cannot be opened, or fails.
func (s *Service) Run(ctx context.Context) error {
	defer addBallast()()
	defer followConfig(ctx, s.parts.live, s.parts.log)()
	defer inBackground(ctx, s.parts.envoy.follow)()
	if !s.parts.envoy.awaitRules(ctx) {
		return nil
	}
	listeners, err := openAll(ctx, s.parts)
	if err != nil {
		return err
	}
	return s.serve(ctx, listeners)
}

// serve answers on the listeners until ctx ends or one of them fails, and shuts all of
// them down.
func (s *Service) serve(ctx context.Context, listeners []listener) error {
	c, log := s.parts.config, s.parts.log
	ended := serveAll(listeners)
	notifySystemd(log, systemdReady)
	first, end := warmUp(ctx, s.parts.engine)
	defer end()
	logStart(s.parts, listeners)
	logFirstConnection(ctx, log, first)
	if c.Log.Format == "text" {
		writeHints(s.lines, listeners)
	}
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // so that a second one ends the process
	notifySystemd(log, systemdStopping)
	drain(s.parts, listeners)
	return errors.Join(err, <-ended)
}

// inBackground runs work on a goroutine of its own. end cancels the context of work and
// waits until work returns.
func inBackground(ctx context.Context, work func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); work(ctx) }()
	return func() { cancel(); <-done }
}
