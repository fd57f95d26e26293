package clientaddr

import (
	"net/netip"
	"strings"
)

// maxEntries is how many entries of a list are looked at. Only trusted proxies make one look at more than one, and nobody has as many
// in a row; if all of them are trusted the last one looked at is the answer.
const maxEntries = 256

// entries walks the elements of a field's lines, as if the lines were joined, from the last to the first.
type entries struct {
	lines []string
	line  string // what is left of the line at hand
	open  bool   // whether an element is left in it, maybe an empty one
	last  func(line string) (rest, element string, more bool)
}

func newEntries(lines []string, last func(string) (string, string, bool)) entries {
	return entries{lines: lines, last: last}
}

// next is the next element to the left; false if there is none.
func (e *entries) next() (string, bool) {
	if !e.open {
		if len(e.lines) == 0 {
			return "", false
		}
		e.line, e.lines = e.lines[len(e.lines)-1], e.lines[:len(e.lines)-1]
	}
	var element string
	e.line, element, e.open = e.last(e.line)
	return element, true
}

// lastOfList splits the last element off a list with commas.
func lastOfList(line string) (rest, element string, more bool) {
	i := strings.LastIndexByte(line, ',')
	if i < 0 {
		return "", line, false
	}
	return line[:i], line[i+1:], true
}

// listed is the client as a list tells it, in which each proxy has appended whom it was asked by. The peer is trusted.
func (r *Resolver) listed(list entries, peer netip.Addr, parse func(string) (netip.Addr, bool)) netip.Addr {
	if r.hops > 0 {
		return counted(list, r.hops, peer, parse)
	}
	client := peer
	for range maxEntries {
		element, found := list.next()
		if !found {
			return client
		}
		addr, fine := parse(element)
		if !fine {
			return client // nothing is known of who asked the last one that was trusted
		}
		client = addr
		if !r.trusts(addr) {
			return client
		}
	}
	return client
}

// counted is the entry that the outermost of so many proxies wrote. The others wrote what stands right of it: addresses of ours, which
// need not be readable. Fewer entries mean that the request did not pass all of them, so none can be told from a forged one.
func counted(list entries, hops int, peer netip.Addr, parse func(string) (netip.Addr, bool)) netip.Addr {
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

// single is the client as a field of one address tells it. A second line or address means that somebody else wrote in it, too.
func single(lines []string, peer netip.Addr) netip.Addr {
	if len(lines) != 1 {
		return peer
	}
	if addr, fine := parseNode(lines[0]); fine {
		return addr
	}
	return peer
}
