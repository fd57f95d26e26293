//go:build !linux

package service

import "net"

// stopAccepting does nothing here: a connection that arrives while a listener closes may
// be reset.
func stopAccepting(net.Listener) error { return nil }

// backlogLength returns 0: the number of connections in the backlog is unknown.
func backlogLength(net.Listener) int { return 0 }
