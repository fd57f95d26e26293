package respapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/memstore"
)

// TestShutdownServesArrivedRequests: Shutdown serves what was sent and then closes the
// connection between two replies.
func TestShutdownServesArrivedRequests(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		s := serve(t, d, nil, Options{}, nil)
		const requests = 500
		conn, idle := s.dial(), s.dial()
		s.write(conn, request("PING"))
		s.expect(conn, "+PONG\r\n")
		s.write(idle, request("PING"))
		s.expect(idle, "+PONG\r\n")
		s.write(conn, strings.Repeat(request("CL.THROTTLE", "k", "-1", "30", "60"), requests))
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		s.expectEnd(conn, strings.Repeat(numbersReply(1, 0, 0, -1, 0), requests))
		s.expectEnd(idle, "")
		conn.Close()
		idle.Close()
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if conn, err := d.dial(s.ln); err == nil {
			conn.Close()
			t.Error("a connection was accepted after Shutdown")
		}
		if err := s.Serve(listenTCP(t)); err != nil {
			t.Errorf("Serve after Shutdown: got error %v want none", err)
		}
	})
}

// TestShutdownUnderLoad: every connection ends between two replies; no request gets two
// replies or a reply out of order.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		for range 5 {
			s := serve(t, d, nil, Options{}, nil)
			var all sync.WaitGroup
			ready := make(chan bool, 8)
			for range 8 {
				conn := s.dial()
				all.Go(func() {
					defer conn.Close()
					r := bufio.NewReader(conn)
					for i := 0; ; i++ {
						ping := fmt.Sprint(i)
						if _, err := io.WriteString(conn, request("ECHO", ping)); err != nil {
							return
						}
						want := fmt.Sprintf("$%d\r\n%s\r\n", len(ping), ping)
						got := make([]byte, len(want))
						n, err := io.ReadFull(r, got)
						if err != nil && n == 0 {
							return
						}
						if string(got) != want {
							t.Errorf("got %q, %v, want %q", got[:n], err, want)
							return
						}
						if i == 20 {
							ready <- true
						}
					}
				})
			}
			for range 8 {
				<-ready
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			all.Wait()
		}
	})
}

func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		s := serve(t, d, nil, Options{}, nil)
		conn := s.dial()
		s.write(conn, request("PING"))
		s.expect(conn, "+PONG\r\n")
		go func() {
			for _, err := conn.Write([]byte(request("PING"))); err == nil; _, err = conn.Write([]byte(request("PING"))) {
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) && err != nil {
			t.Errorf("Shutdown: %v, want canceled or done", err)
		}
		conn.Close()
	})
}

// TestShutdownReadsWholePipeline: a pipeline is read in pieces, and drainTimeout may
// end between two of them.
func TestShutdownReadsWholePipeline(t *testing.T) {
	t.Parallel()
	const asked = 1000
	ln := listenTCP(t)
	defer ln.Close()
	client, err := dialPlain(ln)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(client, strings.Repeat(request("PING"), asked)); err != nil {
		t.Fatal(err)
	}
	s := NewServer(New(mustEngine(t, newFrozen(t), nil), &Options{Networked: true}), nil)
	c := &stream{server: s, conn: conn, handle: s.handler.clients.open.Add(0, nil), s: s.handler.newSessionFor(conn), lastRequest: time.Now()}
	c.resetBuffers()
	if !c.readAndServe() {
		t.Fatal("the connection ended")
	}
	s.startShutdown()
	for c.drainDeadline = time.Now(); c.readAndServe(); {
	}
	conn.Close()
	got, err := io.ReadAll(client)
	if want := strings.Repeat("+PONG\r\n", asked); err != nil || string(got) != want {
		t.Errorf("got %d bytes, %v; want %d", len(got), err, len(want))
	}
}

// TestServeAfterShutdown: a listener that is started during a shutdown is closed
// without error.
func TestServeAfterShutdown(t *testing.T) {
	t.Parallel()
	s := NewServer(New(mustEngine(t, memstore.New(nil), policies), nil), nil)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err != nil {
		t.Errorf("got error %v want none", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener: got error %v want it closed", err)
	}
}
