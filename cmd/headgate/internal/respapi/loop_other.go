//go:build !linux

package respapi

import "net"

// loop is an event loop, which there are none of here: each connection has a goroutine.
type loop struct{}

type loopOrder int

const (
	loopDrains loopOrder = iota + 1
	loopEnds
)

func (s *Server) startLoops() error { return nil }

func (l *loop) add(net.Conn) bool { return false }

func (l *loop) tell(loopOrder) {}
