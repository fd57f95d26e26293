package httpapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A client that has stopped reading does not delay new connections, as a TLS close would.
func TestMakeRoomClosesImmediately(t *testing.T) {
	t.Parallel()
	ours := httptest.NewTLSServer(http.NotFoundHandler())
	ours.Close()
	trusting := ours.Client().Transport.(*http.Transport).TLSClientConfig
	trusting.ServerName = "example.com"
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		client := tls.Client(there, trusting)
		conn := tls.Server(here, &tls.Config{Certificates: ours.TLS.Certificates, SessionTicketsDisabled: true})
		go func() { _ = conn.Handshake() }()
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		states := connStates{max: 1}
		states.change(conn, http.StateNew)
		states.change(conn, http.StateIdle)
		began := time.Now()
		if made, took := states.makeRoom(), time.Since(began); !made || took > 0 {
			t.Errorf("made room: %v, in %v; want true, immediately", made, took)
		}
		if _, err := client.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still open")
		}
	})
}

// Connections without any request are closed before idle ones, and the longest idle
// first. A new connection is protected for a second, and one with a request in flight
// always.
func TestMakeRoomOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		states := connStates{max: 20}
		var unused, idle, active []net.Conn
		add := func(to *[]net.Conn, then ...http.ConnState) {
			conn, _ := net.Pipe()
			*to = append(*to, conn)
			for _, state := range append([]http.ConnState{http.StateNew}, then...) {
				states.change(conn, state)
			}
			time.Sleep(time.Millisecond)
		}
		for range 8 {
			add(&idle, http.StateActive, http.StateIdle)
		}
		for range 4 {
			add(&active, http.StateActive)
		}
		for range 8 {
			add(&unused)
		}
		closed := func(conns []net.Conn) (n int) {
			for ; n < len(conns) && conns[n].SetDeadline(time.Time{}) != nil; n++ {
			}
			return n
		}
		requireClosed := func(when string, wantUnused, wantIdle int) {
			t.Helper()
			if !states.makeRoom() || closed(unused) != wantUnused || closed(idle) != wantIdle {
				t.Errorf("%s: %d unused and %d idle connections were closed, want the first %d and %d", when, closed(unused), closed(idle), wantUnused, wantIdle)
			}
		}
		requireClosed("all new", 0, 1)
		add(&active, http.StateActive)
		time.Sleep(firstRequestTime)
		for n := range len(unused) {
			requireClosed("a second later", n+1, 1)
			add(&active, http.StateActive)
		}
		for n := 1; n < len(idle); n++ {
			requireClosed("only idle", len(unused), n+1)
			add(&active, http.StateActive)
		}
		if states.makeRoom() || closed(active) > 0 {
			t.Error("a connection with a request in flight was closed")
		}
		states.change(idle[0], http.StateActive) // it began to send just when it was closed
		for _, conn := range slices.Concat(unused, idle, active) {
			states.change(conn, http.StateClosed)
		}
		if states.open.Load() != 0 || states.busy() != 0 {
			t.Errorf("%d open and %d busy connections after the end of all", states.open.Load(), states.busy())
		}
	})
}
