package memstore

import "math/bits"

// digest is the keyed hash of a key's text. The store identifies a key by its digest
// and does not keep the text.
type digest struct{ hi, lo uint64 }

// hashKey is a 128-bit secret. Each rule's scope has its own, derived from the store's
// secret, so scope and key are never joined into an ambiguous text. An attacker can't
// choose keys that collide or that crowd one bucket of the table.
type hashKey struct{ k0, k1 uint64 }

// sum returns SipHash-1-3 with an output of 128 bits (Aumasson and Bernstein, “SipHash:
// a fast short-input PRF”, 2012). One round per word and three at the end are what Rust
// and Python use for tables that face attackers.
func (k hashKey) sum(s string) digest {
	v0, v1 := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d^0xee
	v2, v3 := k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
	whole, n := s, uint64(len(s))
	for len(s) >= 8 {
		m := word(s)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
		s = s[8:]
	}
	m := n << 56
	if n >= 8 { // no loop over the rest: the processor would mispredict its length
		m |= word(whole[n-8:]) >> (64 - 8*len(s))
	} else {
		for i := range len(s) {
			m |= uint64(s[i]) << (8 * i)
		}
	}
	v3 ^= m
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= m
	v2 ^= 0xee
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	hi := v0 ^ v1 ^ v2 ^ v3
	v1 ^= 0xdd
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return digest{hi: hi, lo: v0 ^ v1 ^ v2 ^ v3}.nonEmpty()
}

// nonEmpty changes a hi of 0 to 1, because 0 marks a slot that was never used.
func (d digest) nonEmpty() digest {
	if d.hi == 0 {
		d.hi = 1
	}
	return d
}

// derive returns the secret for a scope.
func (k hashKey) derive(scope string) hashKey {
	d := k.sum(scope)
	return hashKey{k0: d.hi, k1: d.lo}
}

// word returns the first eight bytes of s, least significant first. The compiler turns
// it into one load.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
