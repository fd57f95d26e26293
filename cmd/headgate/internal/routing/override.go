package routing

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/internal/urlpath"
)

// NeverMatches returns a reason, with advice, if no request has the given text as its
// key. It returns an empty text if a request may have it. It recognizes only keys of one
// part.
func (k Key) NeverMatches(text string) string {
	expression := k.orAddress()
	if bits, ok := expression.Block(); ok {
		return addressNeverMatches(text, bits)
	}
	canonical := text
	switch expression.String() {
	case "path":
		canonical = urlpath.Key(text)
	case "host":
		canonical = canonicalHost(text)
	case "method":
		canonical = canonicalMethod(text)
	}
	if canonical == text {
		return ""
	}
	return "the key of such requests is " + strconv.Quote(canonical)
}

// addressNeverMatches is [Key.NeverMatches] for the key ip with a prefix length for IPv6.
func addressNeverMatches(text string, bits int) string {
	if text == "unknown" {
		return ""
	}
	addr, err := netip.ParseAddr(text)
	network, errNetwork := netip.ParsePrefix(text)
	switch {
	case err == nil:
		return differs(text, addr, bits)
	case errNetwork != nil:
		return "the key ip is the client's address; write an IP address, or set another key"
	case network.Addr().Is6() && network.Bits() == bits:
		return differs(text, network.Addr(), bits)
	case network.Addr().Is6():
		return "the key has the prefix length " + strconv.Itoa(bits) + "; for all keys in the network, write network:" + text
	}
	return "this is the key of no client; for all addresses of the network, write network:" + text
}

// NeverInNetwork returns a reason, with advice, if no request has a key in the network.
// It returns an empty text if a request may have one.
func (k Key) NeverInNetwork(network netip.Prefix) string {
	longest := 0
	for alternative := range strings.SplitSeq(k.String(), ",") {
		name, length, hasLength := strings.Cut(strings.TrimSpace(alternative), "/")
		bits, _ := smallNumber(length)
		if !hasLength {
			bits = 64
		}
		if name == "ip" {
			longest = max(longest, bits)
		}
	}
	switch {
	case longest == 0:
		return "the key " + k.String() + " is not the client's address; write pattern: in place of network:"
	case network.Addr().Is6() && network.Bits() > longest:
		return "the key of an IPv6 client is a network with the prefix length " + strconv.Itoa(longest) + "; write a shorter prefix"
	}
	return ""
}

// AddressOf returns the address in a key that is an IP address, and its length in bits.
// For a key that is a network, such as 2001:db8::/64, it returns the first address and
// the prefix length. ok is false for every other key. AddressOf allocates only for a key
// that resembles an address.
func AddressOf(key string) (addr netip.Addr, bits int, ok bool) {
	text, length, hasLength := strings.Cut(key, "/")
	if !resemblesAddress(text) {
		return addr, 0, false
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return addr, 0, false
	}
	if !hasLength {
		addr = addr.Unmap()
		return addr, addr.BitLen(), true
	}
	if bits, ok = smallNumber(length); !ok || bits > addr.BitLen() || len(length) > 1 && length[0] == '0' {
		return addr, 0, false
	}
	return addr, bits, true
}

// maxAddressBytes is the length of the longest text of an IP address without a zone.
const maxAddressBytes = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// resemblesAddress reports whether text has only characters of an IP address.
func resemblesAddress(text string) bool {
	if len(text) > maxAddressBytes {
		return false
	}
	separators := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == ':' || c == '.':
			separators++
		case c >= '0' && c <= '9', c|0x20 >= 'a' && c|0x20 <= 'f':
		default:
			return false
		}
	}
	return separators >= 2
}

// smallNumber parses a number of one to three digits.
func smallNumber(text string) (n int, ok bool) {
	if len(text) < 1 || len(text) > 3 {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, true
}

// differs returns an advice if the key of a client with the address is not text.
func differs(text string, addr netip.Addr, bits int) string {
	canonical := string(clientaddr.AppendKey(nil, clientaddr.Group(addr, bits)))
	if canonical == text {
		return ""
	}
	return "the key of this client is " + canonical
}
