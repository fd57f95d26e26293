package clientaddr

import (
	"net/netip"
	"strings"
)

// maxEntries is the maximum number of entries of a field that are read. More than one
// entry is read only if trusted proxies wrote entries, and no real request passes 256
// proxies. If all entries read are trusted, the last one read is the result.
const maxEntries = 256

// entries iterates over the elements of a header field from the last to the first, as
// if the lines of the field were joined.
type entries struct {
	lines []string
	line  string // unread part of the current line
	more  bool   // whether line still has an element, which may be empty
	last  func(line string) (rest, element string, more bool)
}

func newEntries(lines []string, last func(string) (string, string, bool)) entries {
	return entries{lines: lines, last: last}
}

// next returns the next element, from right to left. It returns false if there are no
// more elements.
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

// cutLast cuts the last element off a comma-separated list.
func cutLast(line string) (rest, element string, more bool) {
	i := strings.LastIndexByte(line, ',')
	if i < 0 {
		return "", line, false
	}
	return line[:i], line[i+1:], true
}

// fromList returns the client address from a list to which each proxy has appended the
// address of its client. The peer must be trusted.
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
			return client // the last trusted proxy did not report its client's address
		}
		client = addr
		if !r.trusts(addr) {
			return client
		}
	}
	return client
}

// fromHops returns the address in the entry that was written by the outermost of hops
// proxies. The entries to its right are proxy addresses and need not be valid. If there
// are fewer than hops entries, the request did not pass all proxies and an entry may be
// forged, so fromHops returns peer.
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

// fromSingle returns the client address from a field with one address. If there is a
// second line or a second address, the client has also written to the field, so
// fromSingle returns peer.
func fromSingle(lines []string, peer netip.Addr) netip.Addr {
	if len(lines) != 1 {
		return peer
	}
	if addr, fine := parseNode(lines[0]); fine {
		return addr
	}
	return peer
}
