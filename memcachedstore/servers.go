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

// servers picks a key's server as gomemcache's own list does, so that a store made with [New] and one over a client of gomemcache
// with the same servers find the same keys. Unlike that list it looks names up when it dials, not once for all.
type servers []net.Addr

// address is where a server is said to be: host:port, or the path of a socket.
type address struct{ network, text string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }

const defaultPort = "11211"

// parseServers reads addresses: host:port, host alone for port 11211, or the path of a Unix socket.
func parseServers(texts []string) (servers, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("memcachedstore: %w: no server was given; one is host:port or the path of a socket", headgate.ErrInvalidPolicy)
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
		return address{}, fmt.Errorf("its port is %.20q; accepted are 1 to 65535", port)
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n@") {
		return address{}, fmt.Errorf("its host is %.80q; accepted are a name or an address", host)
	}
	return address{"tcp", net.JoinHostPort(host, port)}, nil
}

// PickServer is the server of a key.
func (s servers) PickServer(key string) (net.Addr, error) {
	if len(s) == 0 {
		return nil, memcache.ErrNoServers
	}
	return s[s.index(key)], nil
}

// index is which server a key lies on; 0 where that is not known here, but to a client that the program holds.
func (s servers) index(key string) int {
	if len(s) < 2 {
		return 0
	}
	return int(crc32.ChecksumIEEE([]byte(key)) % uint32(len(s)))
}

// Each calls visit with every server, until one answers an error.
func (s servers) Each(visit func(net.Addr) error) error {
	for _, a := range s {
		if err := visit(a); err != nil {
			return err
		}
	}
	return nil
}
