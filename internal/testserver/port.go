package testserver

import (
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// Ports come from below those that systems give to clients (from 32768 on Linux): a client that dials a dead server there can
// meet its own connection, and the port can be gone when the server comes back. A node of a cluster listens busOffset further
// too.
const (
	firstPort = 11000
	lastPort  = 20999
	busOffset = 10000
)

// freePort is a port on the loopback interface that is nobody's, and neither is the one busOffset above. No other test gets it
// before this one ends.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		release, ok := claim(port)
		if !ok {
			continue
		}
		if isFree(port) && isFree(port+busOffset) {
			t.Cleanup(release)
			return port
		}
		release()
	}
	t.Fatalf("no port between %d and %d is free", firstPort, lastPort)
	return 0
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	// A process that another test just starts has a copy of the socket until its program runs: that is waited for.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return l.Close() == nil
}

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
