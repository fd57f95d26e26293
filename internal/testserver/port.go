package testserver

import (
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// Ports are below those of outgoing connections (from 32768 on Linux). A client that
// dials a dead server on such a port can connect to itself, and the port can be taken
// before the server restarts. A cluster node also listens on its port plus busOffset.
const (
	firstPort = 11000
	lastPort  = 20999
	busOffset = 10000
)

// freePort returns an unused port on the loopback interface; the port busOffset above
// it is unused too. No other test gets it before this one ends.
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
	// A child process that another test is starting has a copy of the socket until its
	// exec. The lock waits for that.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return l.Close() == nil
}

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
