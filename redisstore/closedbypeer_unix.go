//go:build unix

package redisstore

import (
	"net"
	"syscall"
)

// closedByPeer reports whether the server has closed a connection that has no data to
// read. It does not block.
func closedByPeer(conn net.Conn) bool {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	open, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := open.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return closed || err != nil
}
