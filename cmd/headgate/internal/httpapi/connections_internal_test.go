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

// A client that has stopped reading is no reason to keep those waiting who come: TLS would take its time to say that it ends.
func TestRoomIsMadeAtOnce(t *testing.T) {
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
			t.Errorf("room was made: %v, in %v want at once", made, took)
		}
		if _, err := client.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still there")
		}
	})
}

// Who says nothing makes room before who has asked before, and who has waited long before who is about to ask again. Who is new has a
// second, and who is in a request stays.
func TestWhoMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		states := connStates{max: 20}
		var silent, idle, asking []net.Conn
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
			add(&asking, http.StateActive)
		}
		for range 8 {
			add(&silent)
		}
		gone := func(conns []net.Conn) (n int) {
			for ; n < len(conns) && conns[n].SetDeadline(time.Time{}) != nil; n++ {
			}
			return n
		}
		holds := func(when string, wantSilent, wantIdle int) {
			t.Helper()
			if !states.makeRoom() || gone(silent) != wantSilent || gone(idle) != wantIdle {
				t.Errorf("%s: %d silent and %d idle ones have made room, want the first %d and %d", when, gone(silent), gone(idle), wantSilent, wantIdle)
			}
		}
		holds("while all are new", 0, 1)
		add(&asking, http.StateActive)
		time.Sleep(firstRequestTime)
		for n := range len(silent) {
			holds("a second later", n+1, 1)
			add(&asking, http.StateActive)
		}
		for n := 1; n < len(idle); n++ {
			holds("without silent ones", len(silent), n+1)
			add(&asking, http.StateActive)
		}
		if states.makeRoom() || gone(asking) > 0 {
			t.Error("one in a request has made room")
		}
		states.change(idle[0], http.StateActive) // it had just begun to send when it was cut off
		for _, conn := range slices.Concat(silent, idle, asking) {
			states.change(conn, http.StateClosed)
		}
		if states.open.Load() != 0 || states.busy() != 0 {
			t.Errorf("%d are counted, %d busy, behind the end of all", states.open.Load(), states.busy())
		}
	})
}
