//go:build !linux

package service

import "net"

// stopAccepting does nothing here: a connection that arrives while a listener closes may
// be reset.
func stopAccepting(net.Listener) error { return nil }
