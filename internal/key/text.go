package key

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// MaxBytes is the maximum length in bytes of a key that is not replaced with its hash.
const MaxBytes = 1 << 10

// hashMark is the beginning of a key that was replaced with its hash. A short key that
// begins with it is hashed too, so that no client can choose the text of another
// client's key.
const hashMark = "sha256="

// Bound replaces the key in dst from index begin with “sha256=” and its SHA-256 in
// hexadecimal, if the key is longer than [MaxBytes] or begins with “sha256=”. It does
// not allocate if dst has enough capacity for these 71 bytes.
func Bound(dst []byte, begin int) []byte {
	key := dst[begin:]
	if len(key) <= MaxBytes && !bytes.HasPrefix(key, []byte(hashMark)) {
		return dst
	}
	sum := sha256.Sum256(key)
	return hex.AppendEncode(append(dst[:begin], hashMark...), sum[:])
}

// BoundString is like [Bound] for a key that is a string. It does not allocate if the
// key is not replaced.
func BoundString(key string) string {
	if len(key) <= MaxBytes && !strings.HasPrefix(key, hashMark) {
		return key
	}
	return string(Bound([]byte(key), 0))
}

// AppendEscaped appends one of several parts that are joined with “+”. It writes a “\”
// before each “+” and “\” in the part.
func AppendEscaped[T string | []byte](dst []byte, part T) []byte {
	begin := len(dst)
	return escape(append(dst, part...), begin)
}

func special(c byte) bool { return c == '+' || c == '\\' }

// escape inserts a “\” before each “+” and “\” in dst from index begin. The time is
// linear in the length, because clients choose the text.
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
