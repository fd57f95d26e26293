package service

import (
	"log/slog"
	"net"
	"os"
)

// The states of which systemd is notified; see man sd_notify.
const (
	systemdReady    = "READY=1"
	systemdStopping = "STOPPING=1"
)

// notifySystemd sends a state to the socket whose path is in NOTIFY_SOCKET. systemd
// sets this variable for a unit of Type=notify.
func notifySystemd(log *slog.Logger, state string) {
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
		log.Warn("systemd notification failed", "state", state, "error", err)
	}
}
