package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/headgate/headgate"
)

// names makes a rule's keys in Redis: hg:{tag}:namespace:algorithm:scope:key. The tag, 128 bits of a hash, alone decides the slot, so
// that a user's text does not, whatever braces are in it. What follows is readable, and tells all states apart: each part is escaped,
// and one that is too long is cut and ends with a hash of all of it.
type names struct {
	namespace string
	group     func(key string) string
	middle    string // ":namespace:algorithm:scope:"
}

const (
	maxScopePart = 80
	maxKeyPart   = 64
	hashText     = 22 // characters of 128 bits in base64
)

// codes are the algorithms' names in keys. An algorithm without one is written in full: no name is another's code.
var codes = map[headgate.Algorithm]string{
	headgate.TokenBucket:         "tb",
	headgate.TokenBucketInterval: "ti",
	headgate.FixedWindow:         "fw",
	headgate.SlidingLog:          "sl",
	headgate.SlidingWindow:       "sw",
	headgate.LeakyBucket:         "lb",
}

func newNames(o *Options, algorithm headgate.Algorithm, scope string) names {
	code, ok := codes[algorithm]
	if !ok {
		code = string(algorithm)
	}
	return names{
		namespace: o.Namespace, group: o.Group,
		middle: "}:" + part(o.Namespace, maxNamespace*3) + ":" + code + ":" + part(scope, maxScopePart) + ":",
	}
}

// of is the Redis key of a key.
func (n *names) of(key string) string {
	group := key
	if n.group != nil {
		group = n.group(key)
	}
	var buffer [256]byte // on the stack; few names are longer
	b := append(buffer[:0], "hg:{"...)
	b = appendHash(b, n.namespace, group)
	b = append(b, n.middle...)
	if len(key) <= maxKeyPart && plain(key) {
		return string(append(b, key...))
	}
	return string(append(b, lastPart(key)...))
}

// appendHash appends 128 bits of SHA-256 over the parts, each behind its length, in base64 without padding.
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

// part is text with everything escaped that is not plain, and the colon that separates, and at most so many bytes long.
func part(text string, most int) string { return escaped(text, most, false) }

// lastPart is that of a key, behind which nothing stands: a colon may stay.
func lastPart(key string) string { return escaped(key, maxKeyPart, true) }

func escaped(text string, most int, colons bool) string {
	var b strings.Builder
	for i := 0; i < len(text) && b.Len() <= most; i++ {
		if c := text[i]; plainByte[c] && (c != ':' || colons) {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + string("0123456789ABCDEF"[c>>4]) + string("0123456789ABCDEF"[c&15]))
		}
	}
	if b.Len() <= most {
		return b.String()
	}
	return b.String()[:most-hashText-1] + "~" + string(appendHash(nil, text))
}

// plainByte says which bytes stand for themselves: not what escapes or cuts, and no byte that a terminal or a glob would take for
// something else.
var plainByte = func() (is [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@/+=,#:" {
		is[c] = true
	}
	return is
}()

func plain(text string) bool {
	for i := 0; i < len(text); i++ {
		if !plainByte[text[i]] {
			return false
		}
	}
	return true
}

// namespacePattern is a glob that matches every key of a namespace, and none of another's.
func namespacePattern(namespace string) string {
	return "hg:{*}:" + part(namespace, maxNamespace*3) + ":*"
}
