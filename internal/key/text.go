package key

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// MaxBytes is the length of the longest key that is kept as plain text.
const MaxBytes = 1 << 10

// hashMark begins a key that was replaced by its hash. A short key that begins with it
// is hashed too, so that no client can write another client's key.
const hashMark = "sha256="

// Bound replaces the key that begins at begin with “sha256=” and its SHA-256 in
// hexadecimal if it is longer than [MaxBytes] or begins like a hash. It does not
// allocate if dst has room for 71 bytes.
func Bound(dst []byte, begin int) []byte {
	key := dst[begin:]
	if len(key) <= MaxBytes && !bytes.HasPrefix(key, []byte(hashMark)) {
		return dst
	}
	sum := sha256.Sum256(key)
	return hex.AppendEncode(append(dst[:begin], hashMark...), sum[:])
}

// BoundString is [Bound] for a key that is a string. It does not allocate if the key is
// kept.
func BoundString(key string) string {
	if len(key) <= MaxBytes && !strings.HasPrefix(key, hashMark) {
		return key
	}
	return string(Bound([]byte(key), 0))
}

// AppendEscaped appends one of several parts that are joined by “+”: with a “\” before
// each “+” and “\” of its own.
func AppendEscaped[T string | []byte](dst []byte, part T) []byte {
	begin := len(dst)
	return escape(append(dst, part...), begin)
}

func special(c byte) bool { return c == '+' || c == '\\' }

// escape writes a “\” before each “+” and “\” from begin on. It takes time linear in
// the length: clients choose the text.
func escape(dst []byte, begin int) []byte {
	specials := 0
	for _, c := range dst[begin:] {
		if special(c) {
			specials++
		}
	}
	if specials == 0 {
		return dst
	}
	from := len(dst)
	dst = slices.Grow(dst, specials)[:from+specials]
	for to := len(dst); to > from; {
		from, to = from-1, to-1
		if dst[to] = dst[from]; special(dst[to]) {
			to--
			dst[to] = '\\'
		}
	}
	return dst
}
