package memstore

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// sip128 returns SipHash-c-d with an output of 128 bits. It is a direct transcription
// of the algorithm, as the reference for hashKey.sum.
func sip128(k hashKey, in []byte, c, d int) (uint64, uint64) {
	v0, v1 := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d^0xee
	v2, v3 := k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
	rounds := func(n int) {
		for range n {
			v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		}
	}
	padded := append([]byte(nil), in...)
	for len(padded)%8 != 7 {
		padded = append(padded, 0)
	}
	padded = append(padded, byte(len(in)))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v3 ^= m
		rounds(c)
		v0 ^= m
	}
	v2 ^= 0xee
	rounds(d)
	first := v0 ^ v1 ^ v2 ^ v3
	v1 ^= 0xdd
	rounds(d)
	return first, v0 ^ v1 ^ v2 ^ v3
}

func TestSipHashReferenceMatchesPublishedVectors(t *testing.T) {
	key := hashKey{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	for n, want := range []string{"a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45"} {
		in := make([]byte, n)
		a, b := sip128(key, in, 2, 4)
		got := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)
		if hex.EncodeToString(got) != want {
			t.Errorf("SipHash-2-4-128 of %d bytes: got %x want %s", n, got, want)
		}
	}
}

// TestSumIsSipHash13 shows that keys collide only randomly, and that an attacker
// without the secret can't search for collisions. T12
func TestSumIsSipHash13(t *testing.T) {
	key := hashKey{0x0123456789abcdef, 0xfedcba9876543210}
	in := make([]byte, 300)
	for i := range in {
		in[i] = byte(i * 7)
	}
	for n := range in {
		a, b := sip128(key, in[:n], 1, 3)
		if got := key.sum(string(in[:n])); got.lo != b || got.hi != a {
			t.Fatalf("sum of %d bytes: got %x want %x %x", n, got, a, b)
		}
	}
}

func TestKeyDigestIsNeverEmpty(t *testing.T) {
	if got := (digest{0, 7}).nonEmpty(); got.hi == 0 {
		t.Errorf("digest with hi 0: got %v want hi ≠ 0", got)
	}
	if got := (digest{5, 7}).nonEmpty(); got != (digest{5, 7}) {
		t.Errorf("any other digest: got %v want it unchanged", got)
	}
}
