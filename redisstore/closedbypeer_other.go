//go:build !unix

package redisstore

import "net"

// closedByPeer always returns false on this platform. A closed connection is therefore
// only detected when the next call on it fails.
func closedByPeer(net.Conn) bool { return false }
