//go:build !unix

package redisstore

import "net"

// closedByPeer always returns false on this platform: the next call on a closed
// connection fails.
func closedByPeer(net.Conn) bool { return false }
