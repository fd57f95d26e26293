package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/headgate/headgate"
)

// keyNames builds the Redis keys of a rule: hg:{tag}:namespace:algorithm:scope:key. The
// tag, 128 bits of a hash, alone determines the hash slot. A user's text cannot
// influence the slot, even if it contains braces. The other parts are readable and
// unique for each state: each part is escaped, and a part that is too long is truncated
// and ends with a hash of the whole part.
type keyNames struct {
	namespace string
	group     func(key string) string
	middle    string // ":namespace:algorithm:scope:"
}

const (
	maxScopePart = 80
	maxKeyPart   = 64
	hashLength   = 22 // number of base64 characters of a 128-bit hash
)

// algorithmCodes contains the abbreviations of the algorithms in Redis keys. An
// algorithm without a code is written in full. No algorithm has a name that equals the
// code of another.
var algorithmCodes = map[headgate.Algorithm]string{
	headgate.TokenBucket:         "tb",
	headgate.TokenBucketInterval: "ti",
	headgate.FixedWindow:         "fw",
	headgate.SlidingLog:          "sl2",
	headgate.SlidingWindow:       "sw",
	headgate.LeakyBucket:         "lb",
	headgate.CalendarWindow:      "cw",
	headgate.Concurrency:         "cc",
}

func newKeyNames(o *Options, algorithm headgate.Algorithm, scope string) keyNames {
	code, ok := algorithmCodes[algorithm]
	if !ok {
		code = string(algorithm)
	}
	return keyNames{
		namespace: o.Namespace, group: o.Group,
		middle: "}:" + escapePart(o.Namespace, maxNamespace*3) + ":" + code + ":" + escapePart(scope, maxScopePart) + ":",
	}
}

// redisKey returns the Redis key for the caller's key.
func (n *keyNames) redisKey(key string) string {
	group := key
	if n.group != nil {
		group = n.group(key)
	}
	var buffer [256]byte // on the stack; few Redis keys are longer
	b := append(buffer[:0], "hg:{"...)
	b = appendHash(b, n.namespace, group)
	b = append(b, n.middle...)
	if len(key) <= maxKeyPart && isPlain(key) {
		return string(append(b, key...))
	}
	return string(append(b, escapeKey(key)...))
}

// appendHash appends the first 128 bits of a SHA-256 hash in base64 without padding.
// The hashed text consists of the parts, each prefixed with its length.
func appendHash(b []byte, parts ...string) []byte {
	var buffer [256]byte
	text := buffer[:0]
	for _, p := range parts {
		text = binary.LittleEndian.AppendUint64(text, uint64(len(p)))
		text = append(text, p...)
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.AppendEncode(b, sum[:16])
}

// escapePart escapes a part of a Redis key, including colons, because colons separate
// the parts. The result has at most maxLength bytes.
func escapePart(text string, maxLength int) string { return escape(text, maxLength, false) }

// escapeKey escapes the caller's key. It is the last part of a Redis key, so its colons
// are not escaped.
func escapeKey(key string) string { return escape(key, maxKeyPart, true) }

func escape(text string, maxLength int, colons bool) string {
	var b strings.Builder
	for i := 0; i < len(text) && b.Len() <= maxLength; i++ {
		if c := text[i]; isPlainByte[c] && (c != ':' || colons) {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + string("0123456789ABCDEF"[c>>4]) + string("0123456789ABCDEF"[c&15]))
		}
	}
	if b.Len() <= maxLength {
		return b.String()
	}
	return b.String()[:maxLength-hashLength-1] + "~" + string(appendHash(nil, text))
}

// isPlainByte is the set of bytes that are not escaped. It does not contain the
// characters that mark an escape or a truncation, or bytes with a special meaning in a
// terminal or a glob.
var isPlainByte = func() (is [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@/+=,#:" {
		is[c] = true
	}
	return is
}()

func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		if !isPlainByte[text[i]] {
			return false
		}
	}
	return true
}

// namespacePattern returns a glob that matches every key of a namespace and no key of
// another namespace.
func namespacePattern(namespace string) string {
	return "hg:{*}:" + escapePart(namespace, maxNamespace*3) + ":*"
}
