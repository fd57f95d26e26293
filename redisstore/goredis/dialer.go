package goredis

import (
	"context"
	"net"
	"syscall"

	"github.com/headgate/headgate/internal/respcheck"
)

// Dialer opens a connection to a server, as Dialer of [redis.Options] does.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// CheckReplies returns a dialer whose connections fail if the server sends a malformed
// reply, or one of more than maxBytes bytes; 0 means 16 MiB. Without it, go-redis
// panics on negative lengths and allocates any length that a server announces:
//
//	options.Dialer = goredis.CheckReplies(redis.NewDialer(options), 0)
//
// All commands of the client have this limit, not only those of the store.
func CheckReplies(dial Dialer, maxBytes int64) Dialer {
	limits := respcheck.DefaultLimits
	if maxBytes > 0 {
		limits = respcheck.Limits{Bytes: maxBytes, Elements: max(limits.Elements, maxBytes/32)}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		checked := respcheck.Bounded(conn, limits)
		if raw, ok := conn.(syscall.Conn); ok {
			return systemConn{checked, raw}, nil
		}
		return checked, nil
	}
}

// systemConn keeps the access to the socket, by which go-redis detects that the server
// closed an idle connection.
type systemConn struct {
	*respcheck.Conn
	raw syscall.Conn
}

// SyscallConn returns the socket.
func (c systemConn) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }
