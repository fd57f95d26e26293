package clientaddr

import (
	"net/netip"
	"strings"
)

// maxEntries is how many entries of a list are read. Only trusted proxies cause more
// than one to be read, and real requests do not pass that many. If all of them are
// trusted, the last one read is the result.
const maxEntries = 256

// entries iterates over the elements of a field, from the last to the first, as if its
// lines were joined.
type entries struct {
	lines []string
	line  string // unread part of the current line
	more  bool   // whether line still has an element, which may be empty
	last  func(line string) (rest, element string, more bool)
}

func newEntries(lines []string, last func(string) (string, string, bool)) entries {
	return entries{lines: lines, last: last}
}

// next returns the next element to the left. It returns false if there is none.
func (e *entries) next() (string, bool) {
	if !e.more {
		if len(e.lines) == 0 {
			return "", false
		}
		e.line, e.lines = e.lines[len(e.lines)-1], e.lines[:len(e.lines)-1]
	}
	var element string
	e.line, element, e.more = e.last(e.line)
	return element, true
}

// lastOfList splits the last element off a comma-separated list.
func cutLast(line string) (rest, element string, more bool) {
	i := strings.LastIndexByte(line, ',')
	if i < 0 {
		return "", line, false
	}
	return line[:i], line[i+1:], true
}

// listed returns the client address from a list to which each proxy has appended the
// address of its client. The peer is trusted.
func (r *Resolver) fromList(list entries, peer netip.Addr, parse func(string) (netip.Addr, bool)) netip.Addr {
	if r.hops > 0 {
		return fromHops(list, r.hops, peer, parse)
	}
	client := peer
	for range maxEntries {
		element, found := list.next()
		if !found {
			return client
		}
		addr, fine := parse(element)
		if !fine {
			return client // the client of the last trusted proxy is unknown
		}
		client = addr
		if !r.trusts(addr) {
			return client
		}
	}
	return client
}

// counted returns the entry that the outermost of hops proxies wrote. The entries to
// its right are proxy addresses, which need not be valid. With fewer entries the
// request did not pass all proxies, so an entry may be forged.
func fromHops(list entries, hops int, peer netip.Addr, parse func(string) (netip.Addr, bool)) netip.Addr {
	var element string
	for range hops {
		var found bool
		if element, found = list.next(); !found {
			return peer
		}
	}
	if addr, fine := parse(element); fine {
		return addr
	}
	return peer
}

// single returns the client address from a field with one address. A second line or
// address means that the client wrote into the field too.
func fromSingle(lines []string, peer netip.Addr) netip.Addr {
	if len(lines) != 1 {
		return peer
	}
	if addr, fine := parseNode(lines[0]); fine {
		return addr
	}
	return peer
}
