package clientaddr

import "net/netip"

// defaultBits is the prefix length of an IPv6 subnet, in which a client chooses the
// other bits itself.
const defaultBits = 64

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Group returns the block of addresses that counts as one client. An IPv4 address is a
// block of its own, even if it is mapped or translated (64:ff9b::/96) into IPv6. IPv6
// addresses with the same first v6Bits bits form a block: 64 is usual, and 56 or 48 are
// blocks that one customer may have. The zero Addr gives the zero Prefix. v6Bits
// outside 1 to 128 means 64.
//
// 6to4 and Teredo addresses are grouped like other IPv6 addresses, although the owner
// of the IPv4 address controls the whole block. Addresses translated with a network's
// own NAT64 prefix are too, because the prefix is unknown. Group does not allocate.
func Group(a netip.Addr, v6Bits int) netip.Prefix {
	a = untranslate(a.Unmap())
	if !a.Is6() {
		return netip.PrefixFrom(a, a.BitLen()) // the zero Prefix for the zero Addr
	}
	if v6Bits < 1 || v6Bits > a.BitLen() {
		v6Bits = defaultBits
	}
	p, _ := a.Prefix(v6Bits) // v6Bits is in range
	return p
}

// translated returns the IPv4 address in an address that NAT64 has translated, and any
// other address unchanged.
func untranslate(a netip.Addr) netip.Addr {
	if !a.Is6() || !nat64.Contains(a.WithZone("")) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// AppendKey appends the text of a group for use in a key: "203.0.113.9",
// "2001:db8:1:2::/64", or "unknown" for the zero Prefix, which all clients without an
// address share. It does not allocate if dst has enough capacity.
func AppendKey(dst []byte, p netip.Prefix) []byte {
	switch {
	case !p.IsValid():
		return append(dst, "unknown"...)
	case p.Addr().Is4() && p.IsSingleIP():
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}
