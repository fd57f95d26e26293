package main

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// noNewConnections drops segments that begin a connection, which have SYN (2) and not ACK (16) at byte 13 of TCP's header, and passes all
// others: the rest of a handshake, too. Connections that the listener has made carry it on, where it never finds anything.
var noNewConnections = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 2 | 16},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 2, Jt: 0, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

// quiet has nobody come in at a listener any more, while those who wait to be accepted still are: a listener that is closed resets them.
// Who knocks now is told that nobody listens once it is closed.
func quiet(ln net.Listener) error {
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
