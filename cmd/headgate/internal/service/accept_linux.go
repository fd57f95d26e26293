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
	program := unix.SockFprog{Len: uint16(len(noNewConnections)), Filter: &noNewConnections[0]}
	return control(ln, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
}

// backlogLength returns the number of connections in the backlog of a listener, or 0 if
// it is unknown. For a listening socket, Linux reports it in the field Unacked.
func backlogLength(ln net.Listener) (n int) {
	_ = control(ln, func(fd int) error { // an error leaves n at 0
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n = int(info.Unacked)
		}
		return err
	})
	return n
}

// control calls f with the socket of a TCP listener. It does nothing for other
// listeners.
func control(ln net.Listener, f func(fd int) error) error {
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
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}
