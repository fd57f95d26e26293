package httpapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
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
		states := connStates{most: 1}
		states.change(conn, http.StateNew)
		states.change(conn, http.StateIdle)
		began := time.Now()
		if made, took := states.room(), time.Since(began); !made || took > 0 {
			t.Errorf("room was made: %v, in %v want at once", made, took)
		}
		if _, err := client.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still there")
		}
	})
}
