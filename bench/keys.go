package bench

import (
	"math/bits"
	"unsafe"
)

// Keys generates keys such as “user:0”. It writes the text of every key into the same
// buffer, like a program that reads keys from a socket. The text of a key is therefore
// in the CPU cache, while the limiter's state of the key may not be. Keys must not be
// used concurrently.
type Keys struct {
	buf  [32]byte
	rng  uint64
	keys uint64
}

const prefix = "user:"

// NewKeys returns a source of the keys 0 to keys−1. Sources with different seeds return
// keys in different orders.
func NewKeys(keys int, seed uint64) *Keys {
	k := &Keys{rng: (seed + 1) * 0x9e3779b97f4a7c15, keys: uint64(keys)}
	copy(k.buf[:], prefix)
	return k
}

// Next returns a key that is chosen uniformly at random. The text is valid until the
// next call of a method.
func (k *Keys) Next() string {
	// xorshift64* by Sebastiano Vigna: a few instructions and no memory access
	k.rng ^= k.rng >> 12
	k.rng ^= k.rng << 25
	k.rng ^= k.rng >> 27
	i, _ := bits.Mul64(k.rng*0x2545f4914f6cdd1d, k.keys)
	return k.Key(i)
}

// Key returns the text of key number i. The text is valid until the next call of a
// method.
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
