package service

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// noNewConnections drops TCP segments that begin a connection, which have SYN (2) and not
// ACK (16) at byte 13 of the header, and passes all others, which includes the rest of a
// handshake. Accepted connections inherit the filter, where it never matches.
var noNewConnections = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 2 | 16},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 2, Jt: 0, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

// stopAccepting lets no new connection into the backlog of a listener. Connections that
// are in it can still be accepted: to close the listener would reset them. A client that
// connects now is refused once the listener is closed.
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
