//go:build !linux

package respapi

import "net"

// loop is a placeholder for the event loop, which exists only on Linux. On this system,
// each connection is served by its own goroutine.
type loop struct{}

type loopState int

const (
	loopDraining loopState = iota + 1
	loopStopping
)

func (s *Server) startLoops() error { return nil }

func (l *loop) add(net.Conn) bool { return false }

func (l *loop) setState(loopState) {}
