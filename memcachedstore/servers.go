package memcachedstore

import (
	"fmt"
	"hash/crc32"
	"net"
	"strconv"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
)

// servers selects the server of a key in the same way as the server list of gomemcache.
// Therefore a store created with [New] and a store over a gomemcache client with the
// same servers find the same keys. Unlike gomemcache's list, servers resolves host
// names each time it opens a connection.
type servers []net.Addr

// address is the address of a server: host:port, or the path of a Unix socket.
type address struct{ network, text string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }

const defaultPort = "11211"

// parseServers parses addresses. Each is host:port, a host alone (for port 11211) or
// the path of a Unix socket.
func parseServers(texts []string) (servers, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("memcachedstore: %w: the list of servers is empty; must have at least one host:port or socket path", headgate.ErrInvalidPolicy)
	}
	var all servers
	for i, text := range texts {
		a, err := parseServer(text)
		if err != nil {
			return nil, fmt.Errorf("memcachedstore: %w: server %d is %.80q: %w", headgate.ErrInvalidPolicy, i+1, text, err)
		}
		all = append(all, a)
	}
	return all, nil
}

func parseServer(text string) (address, error) {
	if strings.Contains(text, "/") {
		return address{"unix", text}, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), defaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return address{}, err
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return address{}, fmt.Errorf("port is %.20q; must be 1 to 65535", port)
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n@") {
		return address{}, fmt.Errorf("host is %.80q; must be a name or an address", host)
	}
	return address{"tcp", net.JoinHostPort(host, port)}, nil
}

// PickServer returns the server that stores key.
func (s servers) PickServer(key string) (net.Addr, error) {
	if len(s) == 0 {
		return nil, memcache.ErrNoServers
	}
	return s[s.index(key)], nil
}

// index returns the index of the server that stores key. It returns 0 for a store over
// an existing client, because only that client has the list of servers.
func (s servers) index(key string) int {
	if len(s) < 2 {
		return 0
	}
	return int(crc32.ChecksumIEEE([]byte(key)) % uint32(len(s)))
}

// Each calls visit for the servers in order. It stops at the first error and returns
// it.
func (s servers) Each(visit func(net.Addr) error) error {
	for _, a := range s {
		if err := visit(a); err != nil {
			return err
		}
	}
	return nil
}
