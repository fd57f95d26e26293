package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/respapi"
)

// listener is an open listener and its server.
type listener struct {
	name   string
	ln     net.Listener
	server server
}

// server serves one listener.
type server interface {
	Serve(ln net.Listener) error
	Shutdown(ctx context.Context) error
}

// Variable returns the name of the environment variable that sets the same setting as a
// flag.
func Variable(flag string) string {
	return config.Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Listen opens a TCP listener at addr. An error contains the name of the listener, and
// the flag that sets its address.
func Listen(ctx context.Context, name, addr, flag string) (net.Listener, error) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // multipath TCP sockets do not support socket filters: see stopAccepting
	ln, err := plain.Listen(ctx, "tcp", addr)
	if err == nil {
		return ln, nil
	}
	var cause error = err
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		cause = errno
	}
	return nil, fmt.Errorf("cannot listen for %s on %s: %w; choose another address with --%s or %s", name, addr, cause, flag, Variable(flag))
}

// listenEndpoint opens a TCP listener or a Unix socket.
func listenEndpoint(ctx context.Context, name string, addr config.Endpoint, flag string) (net.Listener, error) {
	path, ok := addr.Socket()
	if !ok {
		return Listen(ctx, name, string(addr), flag)
	}
	ln, err := respapi.ListenUnix(path, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for %s: %w; choose another address with --%s or %s", name, err, flag, Variable(flag))
	}
	return ln, nil
}

// Reachable returns the host and port at which a client on this machine can connect to
// a listener.
func Reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
}

// serveAll starts the servers of all listeners. The channel receives an error for each
// server that fails, and is closed when all servers have ended.
func serveAll(listeners []listener) <-chan error {
	ended := make(chan error, len(listeners))
	var all sync.WaitGroup
	for _, l := range listeners {
		all.Go(func() {
			if err := l.server.Serve(l.ln); err != nil {
				ended <- fmt.Errorf("%s listener failed: %w", l.name, err)
			}
		})
	}
	go func() { all.Wait(); close(ended) }()
	return ended
}

// shutdown shuts down all servers concurrently. Each server closes its listener and
// waits for its requests in flight.
func shutdown(ctx context.Context, listeners []listener) error {
	errs := make([]error, len(listeners))
	var all sync.WaitGroup
	for i, l := range listeners {
		all.Go(func() {
			if err := l.server.Shutdown(ctx); err != nil {
				errs[i] = fmt.Errorf("shut down %s listener: %w", l.name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// closeAll closes listeners whose servers were not started, and ends the goroutines of
// these servers.
func closeAll(listeners []listener) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no request is in flight
	_ = shutdown(ctx, listeners)
	for _, l := range listeners {
		_ = l.ln.Close() // nothing was accepted
	}
}
