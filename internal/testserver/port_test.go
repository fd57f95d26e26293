package testserver

import (
	"net"
	"testing"
)

func TestPortIsClaimedOnce(t *testing.T) {
	t.Parallel()
	var port int
	t.Run("holder", func(t *testing.T) {
		port = freePort(t)
		if release, ok := claim(port); ok {
			release()
			t.Errorf("port %d was claimed a second time", port)
		}
	})
	release, ok := claim(port)
	if !ok {
		t.Fatalf("port %d is still claimed when its test has ended", port)
	}
	release()
}

func TestPortInUseIsNotFree(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", loopback(freePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; isFree(port) {
		t.Errorf("port %d, where someone listens: got free want not", port)
	}
}
