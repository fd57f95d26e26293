package service

import (
	"log/slog"
	"net"
	"testing"
	"time"
)

// A shutdown waits for the connections in the backlog of a listener until the server has
// accepted them, also if that takes long: closing the listener would reset them.
func TestDrainWaitsForBacklog(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	const clients = 3
	for range clients {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drainBacklogs(slog.New(slog.DiscardHandler), []listener{{ln: ln}}, time.Hour)
	}()
	for i := range clients {
		select {
		case <-drained:
			t.Fatalf("the shutdown goes on while %d connections are in the backlog", clients-i)
		case <-time.After(2 * settleTime):
		}
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	<-drained
}
