package service

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
	"github.com/headgate/headgate/cmd/headgate/internal/respapi"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// openAll opens every listener that is not off, but does not start the servers. If a
// listener cannot be opened, it closes the listeners that are open.
func openAll(ctx context.Context, p *parts) (all []listener, err error) {
	defer func() {
		if err != nil {
			closeAll(all)
			err = freePortHint(ctx, p.config, err)
		}
	}()
	c := p.config
	for _, one := range []struct {
		off  bool
		open func(context.Context, *parts) (listener, error)
	}{
		{c.HTTP.Addr == config.Off, openHTTP},
		{c.RESP.Addr == config.Endpoint(config.Off), openRESP},
		{c.GRPC.Addr == config.Endpoint(config.Off), openGRPC},
	} {
		if one.off {
			continue
		}
		l, err := one.open(ctx, p)
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil, errors.New("all listeners are off: set http.addr, resp.addr or grpc.addr (--http-addr, --resp-addr, --grpc-addr)")
	}
	more, err := openOperators(ctx, p)
	return append(all, more...), err
}

// openHTTP opens the listener of the HTTP API, which also serves forward-auth, Envoy's
// JSON API and the demo page.
func openHTTP(ctx context.Context, p *parts) (listener, error) {
	ln, err := Listen(ctx, "HTTP", string(p.config.HTTP.Addr), "http-addr")
	if err != nil {
		return listener{}, err
	}
	secure, err := serverTLS("http", &p.config.HTTP.TLS, p.log, "h2", "http/1.1")
	if err != nil {
		return listener{}, errors.Join(err, ln.Close())
	}
	ln = secured(ln, secure)
	server, err := newHTTPServer(p, ln, secure != nil)
	if err != nil {
		return listener{}, errors.Join(err, ln.Close())
	}
	return listener{"http", ln, server}, nil
}

// newHTTPServer creates the server for an open HTTP listener. The server trusts every
// proxy, and serves the demo page, only if the listener is local: the page has no
// login.
func newHTTPServer(p *parts, ln net.Listener, secure bool) (*httpapi.Server, error) {
	c, local := p.config, localaccess.Addr(ln.Addr())
	hosts := localaccess.NewHosts(ln.Addr(), secure, c.HTTP.HostNames())
	guard := httpapi.NewGuard(hosts, p.log)
	answer, err := forwardauth.New(p.seen.forwardAuth, &forwardauth.Options{Local: local, AllowHost: hosts.AllowForwarded, Log: p.log})
	if err != nil {
		return nil, err
	}
	proxies := p.observers.http("forward_auth", forwardauth.Path, answer)
	page := &demoPage{checkURL: scheme(ln) + "://" + Reachable(ln.Addr()) + "/v1/check", log: p.log}
	mounted := map[string]http.Handler{
		forwardauth.Path:       proxies,
		forwardauth.Path + "/": proxies,
		"/json":                p.observers.http("grpc", "/json", guard.Protect(http.HandlerFunc(p.envoy.handler.ServeJSON))),
		"/healthcheck":         http.HandlerFunc(p.envoy.handler.ServeHealth),
	}
	if local {
		mounted[demoPath] = http.RedirectHandler(demoPath+"/", http.StatusFound)
		mounted[demoPath+"/"] = page
	}
	handler := httpapi.New(p.seen.http, &httpapi.Options{
		MaxBodyBytes: c.MaxBodyBytes, Health: p.health, Mounted: mounted, Version: p.version, Guard: guard, Access: p.gates.http, Wrap: p.observers.wrapOperation(),
	})
	server := httpapi.NewServer(handler, &httpapi.ServerOptions{
		HeaderTimeout: c.HeaderTimeout, ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout,
		MaxHeaderBytes: c.MaxHeaderBytes, MaxConnections: c.HTTP.MaxConnections, MaxMemoryBytes: int64(c.HTTP.MaxMemoryBytes), Log: p.log.With("listener", "http"),
	})
	server.OnShutdown(page.close)
	return server, nil
}

// openRESP opens the listener of the Redis-compatible endpoint. A Unix socket does not
// use TLS.
func openRESP(ctx context.Context, p *parts) (listener, error) {
	c := &p.config.RESP
	ln, err := listenEndpoint(ctx, "RESP", c.Addr, "resp-addr")
	if err != nil {
		return listener{}, err
	}
	if _, socket := c.Addr.Socket(); !socket {
		secure, err := serverTLS("resp", &c.TLS, p.log)
		if err != nil {
			return listener{}, errors.Join(err, ln.Close())
		}
		ln = secured(ln, secure)
	}
	return listener{"resp", ln, newRESPServer(p)}, nil
}

func newRESPServer(p *parts) *respapi.Server {
	c := &p.config.RESP
	handler := respapi.New(p.seen.resp, &respapi.Options{
		User: c.User, Password: string(c.Password), Networked: storeopen.Networked(string(p.config.Store)), MaxClients: c.MaxClients,
		MaxRequestBytes: max(c.MaxRequestBytes, p.config.MaxKeyBytes+1024), MaxBodyBytes: p.config.MaxBodyBytes,
		MaxMemoryBytes: int64(c.MaxMemoryBytes), Version: p.version, Log: p.log.With("listener", "resp"), Tracer: p.observers.commands(),
	})
	p.gates.attach(handler)
	return respapi.NewServer(handler, &respapi.ServerOptions{
		RequestTimeout: c.RequestTimeout, WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout, NoLoops: !c.EventLoops,
	})
}

// openGRPC opens the listener of Envoy's rate limit service. The gRPC server itself
// terminates TLS.
func openGRPC(ctx context.Context, p *parts) (listener, error) {
	c := &p.config.GRPC
	secure, err := serverTLS("grpc", &c.TLS, p.log, "h2")
	if err != nil {
		return listener{}, err
	}
	ln, err := listenEndpoint(ctx, "gRPC", c.Addr, "grpc-addr")
	if err != nil {
		return listener{}, err
	}
	return listener{"grpc", ln, rlsapi.NewServer(p.envoy.handler, &rlsapi.ServerOptions{
		MaxMessageBytes: c.MaxMessageBytes, MaxConnections: c.MaxConnections, MaxStreams: c.MaxStreams,
		MaxHeaderBytes:   max(p.config.MaxHeaderBytes, rlsapi.DefaultMaxHeaderBytes),
		MaxConnectionAge: c.MaxConnectionAge, AgeGrace: c.MaxConnectionAgeGrace, HandshakeTimeout: p.config.HeaderTimeout,
		ReadTimeout: p.config.ReadTimeout, WriteTimeout: p.config.WriteTimeout, MaxMemoryBytes: int64(c.MaxMemoryBytes),
		TLS: secure, Log: p.log.With("listener", "grpc"), Interceptor: p.observers.interceptor(),
	})}, nil
}
