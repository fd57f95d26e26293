package memstore

import "math/bits"

// digest is the hash of a key under a secret. The store identifies a key by its digest
// and does not keep the key's text.
type digest struct{ hi, lo uint64 }

// hashKey is the 128-bit secret of a hash. Each rule's scope has its own secret,
// derived from the store's secret, so scope and key are never joined into an ambiguous
// text. Because of the secret, an attacker can't choose keys that collide or that crowd
// one bucket of the table.
type hashKey struct{ k0, k1 uint64 }

// sum returns the 128-bit SipHash-1-3 of s (Aumasson and Bernstein, “SipHash: a fast
// short-input PRF”, 2012). Rust and Python also use one round per word and three rounds
// at the end, for hash tables whose keys an attacker may choose.
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
	if n >= 8 { // no loop over the remaining bytes: the processor would mispredict their number
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

// nonEmpty returns d with a hi of 0 changed to 1, because a hi of 0 marks a slot that
// was never used.
func (d digest) nonEmpty() digest {
	if d.hi == 0 {
		d.hi = 1
	}
	return d
}

// derive derives the hash key of a scope from k.
func (k hashKey) derive(scope string) hashKey {
	d := k.sum(scope)
	return hashKey{k0: d.hi, k1: d.lo}
}

// word returns the first eight bytes of s as a number, least significant byte first.
// The compiler turns word into one load instruction.
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
