//go:build !linux

package respapi

import "net"

// loop is an event loop. This system has none: each connection has a goroutine.
type loop struct{}

type loopState int

const (
	loopDraining loopState = iota + 1
	loopStopping
)

func (s *Server) startLoops() error { return nil }

func (l *loop) add(net.Conn) bool { return false }

func (l *loop) setState(loopState) {}
