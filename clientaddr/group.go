package clientaddr

import "net/netip"

// usualBits is how much of an IPv6 address one client counts by: the subnet of which it chooses the rest by itself.
const usualBits = 64

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Group is the block of addresses that counts as one client: an IPv4 address by itself, also one that is mapped or translated
// (64:ff9b::/96) into IPv6, and an IPv6 address with all that share its first v6Bits bits: 64 is usual, 56 or 48 is what one
// customer may hold. The zero Addr gives the zero Prefix. v6Bits outside 1 to 128 counts as 64. 6to4 and Teredo, where whoever holds
// an IPv4 address holds the block as well, and translation at a network's own prefix, which cannot be known, are grouped as other
// IPv6. It does not allocate.
func Group(a netip.Addr, v6Bits int) netip.Prefix {
	a = translated(a.Unmap())
	if !a.Is6() {
		return netip.PrefixFrom(a, a.BitLen()) // of the zero Addr the zero Prefix
	}
	if v6Bits < 1 || v6Bits > a.BitLen() {
		v6Bits = usualBits
	}
	p, _ := a.Prefix(v6Bits) // they fit
	return p
}

// translated is the IPv4 address behind one that NAT64 has made, and every other as it is.
func translated(a netip.Addr) netip.Addr {
	if !a.Is6() || !nat64.Contains(a.WithZone("")) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// AppendKey appends the text of a group, to be used in a key: “203.0.113.9”, “2001:db8:1:2::/64”, or “unknown” for the zero Prefix,
// which all clients without an address share. It does not allocate if dst has room.
func AppendKey(dst []byte, p netip.Prefix) []byte {
	switch {
	case !p.IsValid():
		return append(dst, "unknown"...)
	case p.Addr().Is4() && p.IsSingleIP():
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}
