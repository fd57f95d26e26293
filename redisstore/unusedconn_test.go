package redisstore

import (
	"errors"
	"io"
	"net"
	"testing"
)

// A reader that is waiting for replies detects that the server has closed the connection.
// If a call that still waits may have been sent, its result is unknown. Otherwise nothing
// was sent.
func TestReaderOfClosedConnection(t *testing.T) {
	for _, tt := range []struct {
		name  string
		calls func(*callCount) // between the last use of the connection and its end
		want  error
	}{
		{"a call waits", func(n *callCount) { n.begin() }, io.EOF},
		{"one of two calls has ended", func(n *callCount) { n.begin(); n.begin(); n.end() }, io.EOF},
		{"all calls have ended", func(n *callCount) { n.begin(); n.end() }, errClosedWhileIdle},
		{"a call began after all had ended", func(n *callCount) { n.begin(); n.end(); n.begin() }, errClosedWhileIdle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, server := net.Pipe()
			d := newDialer(&target{kind: single})
			defer d.close()
			c := d.track(client, 0, endpoint{})
			go func() {
				_, _ = server.Read(make([]byte, 4))
				_ = server.Close()
			}()
			if _, err := c.Write([]byte("PING")); err != nil {
				t.Fatal(err)
			}
			tt.calls(&d.calls)
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, tt.want) {
				t.Errorf("Read: got error %v want %v", err, tt.want)
			}
			if _, err := c.Write([]byte("PING")); errors.Is(tt.want, errClosedWhileIdle) && !errors.Is(err, tt.want) {
				t.Errorf("Write: got error %v want %v", err, errClosedWhileIdle)
			}
		})
	}
}
