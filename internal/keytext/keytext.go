// Package keytext writes the text of keys that are made of parts, so that no part's text can pass for another's: the same text
// at every door, so that doors over one store share what a key has spent. What is appended to dst allocates nothing if dst has room.
package keytext

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// MaxBytes is the longest key that is kept as it is.
const MaxBytes = 1 << 10

// hashMark begins a key that was replaced by its hash. A short one that begins so is replaced as well, so that nobody can write
// down another's.
const hashMark = "sha256:"

// Bounded replaces the key that begins at begin by its SHA-256, in hexadecimal, if it is longer than [MaxBytes].
func Bounded(dst []byte, begin int) []byte {
	key := dst[begin:]
	if len(key) <= MaxBytes && !bytes.HasPrefix(key, []byte(hashMark)) {
		return dst
	}
	sum := sha256.Sum256(key)
	return hex.AppendEncode(append(dst[:begin], hashMark...), sum[:])
}

// BoundedString is [Bounded] of a key that is a string already, which costs nothing if it is kept as it is.
func BoundedString(key string) string {
	if len(key) <= MaxBytes && !strings.HasPrefix(key, hashMark) {
		return key
	}
	return string(Bounded([]byte(key), 0))
}

// Joined puts its length before the part that begins at begin: parts that are joined can be told apart, as in 5:alice1:/.
func Joined(dst []byte, begin int) []byte {
	var digits [20]byte
	length := append(strconv.AppendInt(digits[:0], int64(len(dst)-begin), 10), ':')
	return slices.Insert(dst, begin, length...)
}

// AppendChoice says that what follows is the i-th of several alternatives, or none of them if i is below 0.
func AppendChoice(dst []byte, i int) []byte {
	if i < 0 {
		return append(dst, '-')
	}
	return append(strconv.AppendInt(dst, int64(i), 10), ':')
}
