package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// freePortHint replaces the error of a listener whose default port is in use. The new
// error names all default ports in use, and the flags with which the service starts on
// free ports. The service does not select other ports without these flags, because
// clients would not find it. freePortHint returns any other error unchanged.
func freePortHint(ctx context.Context, c *config.Config, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	var taken, flags []string
	for _, l := range []struct{ name, path, addr, flag string }{
		{"HTTP", "http.addr", string(c.HTTP.Addr), "http-addr"},
		{"RESP", "resp.addr", string(c.RESP.Addr), "resp-addr"},
		{"gRPC", "grpc.addr", string(c.GRPC.Addr), "grpc-addr"},
	} {
		if c.Origins[l.path] != "default" {
			continue
		}
		ln, failed := Listen(ctx, l.name, l.addr, l.flag)
		if failed == nil {
			_ = ln.Close()
			continue
		}
		taken = append(taken, l.addr+" ("+l.name+")")
		flags = append(flags, "--"+l.flag+" 127.0.0.1:0")
	}
	if len(taken) == 0 {
		return err // of an address that the user chose
	}
	return fmt.Errorf("cannot listen on the default address %s: %w; to use free ports, start with: headgate serve %s",
		strings.Join(taken, ", "), syscall.EADDRINUSE, strings.Join(flags, " "))
}
