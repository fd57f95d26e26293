package service

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// noNewConnections is a socket filter that drops TCP segments that begin a connection:
// those with the flag SYN (2) and without ACK (16) in byte 13 of the header. It passes
// all other segments, including the rest of a handshake. Accepted connections inherit
// the filter, but it never matches their segments.
var noNewConnections = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 2 | 16},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 2, Jt: 0, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

// stopAccepting keeps new connections out of the backlog of a listener. The connections
// that are in the backlog can still be accepted; closing the listener immediately would
// reset them. A client that connects now is refused when the listener is closed.
func stopAccepting(ln net.Listener) error {
	if outer, ok := ln.(*tlsListener); ok {
		ln = outer.Listener
	}
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(noNewConnections)), Filter: &noNewConnections[0]}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	return errors.Join(err, failed)
}
