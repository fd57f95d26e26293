package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/respapi"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// door is one way in: where it listens, and who answers there.
type door struct {
	name   string
	ln     net.Listener
	server interface {
		Serve(ln net.Listener) error
		Shutdown(ctx context.Context) error
	}
}

// open listens at every door that is not off. Nobody is answered yet.
func (s *service) open(ctx context.Context) (all []door, err error) {
	defer func() {
		if err != nil {
			for _, d := range all {
				_ = d.ln.Close() // nobody came in
			}
		}
	}()
	c := s.config
	for _, way := range []struct {
		off  bool
		open func(ctx context.Context) (door, error)
	}{
		{c.HTTP.Addr == config.Off, s.openHTTP},
		{c.RESP.Addr == config.Endpoint(config.Off), s.openRESP},
		{c.GRPC.Addr == config.Endpoint(config.Off), s.openGRPC},
	} {
		if way.off {
			continue
		}
		d, err := way.open(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, errors.New("no door is open: http.addr, resp.addr and grpc.addr are off (--http-addr, --resp-addr, --grpc-addr), " +
			"and there are no others")
	}
	more, err := s.openAdmin(ctx)
	return append(all, more...), err
}

func (s *service) openHTTP(ctx context.Context) (door, error) {
	ln, err := listen(ctx, "HTTP", string(s.config.HTTP.Addr), "http-addr")
	if err != nil {
		return door{}, err
	}
	if err := s.openForwardAuth(ln); err != nil {
		return door{}, errors.Join(err, ln.Close())
	}
	if ln, err = secured(ln, s.tlsOf("http", &s.config.HTTP.TLS, "h2", "http/1.1")); err != nil {
		return door{}, err
	}
	return door{"http", ln, s.http(ln)}, nil
}

func (s *service) openRESP(ctx context.Context) (door, error) {
	ln, err := s.listenRESP(ctx)
	if err != nil {
		return door{}, err
	}
	return door{"resp", ln, s.resp()}, nil
}

func (s *service) openGRPC(ctx context.Context) (door, error) {
	server, err := s.grpc()
	if err != nil {
		return door{}, err
	}
	ln, err := s.listenGRPC(ctx)
	if err != nil {
		return door{}, err
	}
	return door{"grpc", ln, server}, nil
}

// http is the server for HTTP.
func (s *service) http(ln net.Listener) *httpapi.Server {
	c := s.config
	s.health = httpapi.NewHealth(s.engine, s.healthOptions())
	opts := &httpapi.Options{MaxBodyBytes: c.MaxBodyBytes, Health: s.health}
	opts.Mounted = map[string]http.Handler{
		forwardauth.Path:       s.forwardAuth,
		forwardauth.Path + "/": s.forwardAuth,
		"/json":                http.HandlerFunc(s.envoy.handler.ServeJSON),
		"/healthcheck":         http.HandlerFunc(s.envoy.handler.ServeHealth),
	}
	page := s.mountDemo(ln, opts.Mounted)
	server := httpapi.NewServer(httpapi.New(s.at("http"), opts), &httpapi.ServerOptions{
		HeaderTimeout: c.HeaderTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout,
		MaxHeaderBytes: c.MaxHeaderBytes, MaxConnections: c.HTTP.MaxConnections, Log: s.log,
	})
	if page != nil {
		server.OnShutdown(page.close)
	}
	return server
}

// healthOptions are what /readyz tells, at whatever door.
func (s *service) healthOptions() *httpapi.HealthOptions {
	c := s.config
	opts := &httpapi.HealthOptions{Store: storeopen.Name(string(c.Store))}
	if s.envoy.xds != nil {
		opts.ControlPlane = s.envoy.controlPlane
	}
	if s.sources.Path != "" || c.Envoy.Config != "" || s.envoy.xds != nil {
		opts.Config = func() (uint64, bool) {
			status := s.live.Status()
			return status.Generation, status.Err != nil || s.envoy.refused.Load()
		}
	}
	return opts
}

// resp is the server for Redis clients.
func (s *service) resp() *respapi.Server {
	c := &s.config.RESP
	handler := respapi.New(s.at("resp"), &respapi.Options{
		User: c.User, Password: string(c.Password), Networked: storeopen.Networked(string(s.config.Store)), MaxClients: c.MaxClients,
		MaxRequestBytes: max(c.MaxRequestBytes, s.config.MaxKeyBytes+1024), Version: version(), Log: s.log,
	})
	return respapi.NewServer(handler, &respapi.ServerOptions{
		RequestTimeout: c.RequestTimeout, WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout, NoLoops: !c.EventLoops,
	})
}

func (s *service) listenRESP(ctx context.Context) (net.Listener, error) {
	addr := s.config.RESP.Addr
	path, ok := addr.Socket()
	if !ok {
		ln, err := listen(ctx, "RESP", string(addr), "resp-addr")
		if err != nil {
			return nil, err
		}
		return secured(ln, s.tlsOf("resp", &s.config.RESP.TLS))
	}
	ln, err := respapi.ListenUnix(path, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for RESP: %w; choose another address with --resp-addr or %s", err, environmentName("resp-addr"))
	}
	return ln, nil
}

// serveAll answers at all doors. What it returns tells once a door breaks, and is closed when all have ended.
func serveAll(doors []door) <-chan error {
	ended := make(chan error, len(doors))
	var all sync.WaitGroup
	for _, d := range doors {
		all.Go(func() {
			if err := d.server.Serve(d.ln); err != nil {
				ended <- fmt.Errorf("the %s door broke: %w", d.name, err)
			}
		})
	}
	go func() { all.Wait(); close(ended) }()
	return ended
}

// shutdown closes all doors at a time, each behind the last request.
func shutdown(ctx context.Context, doors []door) error {
	errs := make([]error, len(doors))
	var all sync.WaitGroup
	for i, d := range doors {
		all.Go(func() {
			if err := d.server.Shutdown(ctx); err != nil {
				errs[i] = fmt.Errorf("the %s door: %w", d.name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// listen opens a door's port, or says how to choose another.
func listen(ctx context.Context, door, addr, flag string) (net.Listener, error) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // which takes no filters: see quiet
	ln, err := plain.Listen(ctx, "tcp", addr)
	if err == nil {
		return ln, nil
	}
	var cause error = err
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		cause = errno
	}
	return nil, fmt.Errorf("cannot listen for %s on %s: %w; choose another address with --%s or %s",
		door, addr, cause, flag, environmentName(flag))
}
