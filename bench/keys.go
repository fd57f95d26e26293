package bench

import (
	"math/bits"
	"unsafe"
)

// Keys writes the texts of keys ("user:0" and so on) into one buffer, as a program does
// that reads keys from a socket. So the text is in the CPU cache, and the limiter's
// state of the key may not be. Keys must not be used by several goroutines.
type Keys struct {
	buf  [32]byte
	rng  uint64
	keys uint64
}

const prefix = "user:"

// NewKeys returns a source of keys 0 to keys−1. Sources with different seeds return
// them in different orders.
func NewKeys(keys int, seed uint64) *Keys {
	k := &Keys{rng: (seed + 1) * 0x9e3779b97f4a7c15, keys: uint64(keys)}
	copy(k.buf[:], prefix)
	return k
}

// Next returns a key chosen uniformly at random. Its text is valid until the next call.
func (k *Keys) Next() string {
	// xorshift64* by Sebastiano Vigna takes a few instructions and no memory access.
	k.rng ^= k.rng >> 12
	k.rng ^= k.rng << 25
	k.rng ^= k.rng >> 27
	i, _ := bits.Mul64(k.rng*0x2545f4914f6cdd1d, k.keys)
	return k.Key(i)
}

// Key returns the text of key i. It is valid until the next call.
func (k *Keys) Key(i uint64) string {
	digits := 1
	for bound := uint64(10); i >= bound; bound *= 10 {
		digits++
	}
	end := len(prefix) + digits
	for at := end - 1; at >= len(prefix); at-- {
		k.buf[at] = byte('0' + i%10)
		i /= 10
	}
	return unsafe.String(&k.buf[0], end)
}
