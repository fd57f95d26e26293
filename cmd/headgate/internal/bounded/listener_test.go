package bounded_test

import (
	"io"
	"net"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// Connections above the limit are closed; after one has ended, another is accepted.
func TestListener(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := bounded.Listener(inner, 2)
	t.Cleanup(func() { _ = ln.Close() })
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a third connection: got a byte, want its end")
	}
	_ = first.Close()
	_ = first.Close() // counts once
	third := dial()
	if _, err := io.WriteString(<-accepted, "x"); err != nil {
		t.Error(err)
	}
	if n, err := third.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("after the first was closed: got %d bytes, error %v want 1", n, err)
	}
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a fourth connection: got a byte, want its end")
	}
	_ = second.Close()
}
