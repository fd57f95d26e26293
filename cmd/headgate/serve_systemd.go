package main

import (
	"net"
	"os"
)

// What systemd is told; man sd_notify.
const (
	systemdReady    = "READY=1"
	systemdStopping = "STOPPING=1"
)

// tellSystemd says how far the service is, if a unit of Type=notify has started it: in NOTIFY_SOCKET is then where to say so.
func (s *service) tellSystemd(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		s.log.Warn("systemd cannot be told", "state", state, "cause", err)
	}
}
