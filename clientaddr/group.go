package clientaddr

import "net/netip"

// defaultBits is the prefix length of an IPv6 subnet. A client can choose all other
// bits of its address.
const defaultBits = 64

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Group returns the block of addresses that counts as one client. An IPv4 address is a
// separate block, even if it is mapped or translated (64:ff9b::/96) to IPv6. IPv6
// addresses with the same first v6Bits bits are one block: 64 bits are usual; with 56
// or 48 bits, a block is as large as the network of a single customer may be. v6Bits
// outside 1 to 128 means 64. For the zero Addr, Group returns the zero Prefix.
//
// 6to4 and Teredo addresses are grouped like other IPv6 addresses, although the owner
// of the IPv4 address controls the whole block. The same applies to addresses that a
// network translates with its own NAT64 prefix, because that prefix is unknown. Group
// does not allocate.
func Group(a netip.Addr, v6Bits int) netip.Prefix {
	a = untranslate(a.Unmap())
	if !a.Is6() {
		return netip.PrefixFrom(a, a.BitLen()) // for the zero Addr, this is the zero Prefix
	}
	if v6Bits < 1 || v6Bits > a.BitLen() {
		v6Bits = defaultBits
	}
	p, _ := a.Prefix(v6Bits) // v6Bits is in range
	return p
}

// untranslate returns the IPv4 address that is contained in an address translated by
// NAT64. It returns any other address unchanged.
func untranslate(a netip.Addr) netip.Addr {
	if !a.Is6() || !nat64.Contains(a.WithZone("")) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// AppendKey appends the text of a block of addresses, for use in a key: “203.0.113.9”,
// “2001:db8:1:2::/64”, or “unknown” for the zero Prefix. All clients without an address
// therefore have the same key. AppendKey does not allocate if dst has enough capacity.
func AppendKey(dst []byte, p netip.Prefix) []byte {
	switch {
	case !p.IsValid():
		return append(dst, "unknown"...)
	case p.Addr().Is4() && p.IsSingleIP():
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}
