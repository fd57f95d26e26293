package routing

import (
	"net/netip"
	"strconv"

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
		return "the key has the prefix length " + strconv.Itoa(bits) + "; write one override for each /" + strconv.Itoa(bits)
	}
	return "an override is for one address, not for a network; write one override for each address"
}

// differs returns an advice if the key of a client with the address is not text.
func differs(text string, addr netip.Addr, bits int) string {
	canonical := string(clientaddr.AppendKey(nil, clientaddr.Group(addr, bits)))
	if canonical == text {
		return ""
	}
	return "the key of this client is " + canonical
}
