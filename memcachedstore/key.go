package memcachedstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// digest identifies a key by 128 bits of SHA-256. Two keys with the same digest would
// share a state, but no one can construct such a pair.
type digest [16]byte

// name returns the name of the key in memcached: 25 bytes that are valid in the
// protocol, whatever bytes the user's key contains.
func (d digest) name() string { return "hg:" + base64.RawURLEncoding.EncodeToString(d[:]) }

// scope identifies a set of keys. It is a hash of a namespace, an algorithm and a
// rule's scope. Each of the three is prefixed with its length, so that different
// combinations are never hashed from the same bytes.
type scope [sha256.Size]byte

func newScope(namespace, algorithm, ruleScope string) scope {
	var b []byte
	for _, part := range []string{namespace, algorithm, ruleScope} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// digest returns the digest of key in this scope. The scope has a fixed length, so no
// separator is necessary between scope and key.
func (s *scope) digest(key string) digest {
	var short [192]byte
	sum := sha256.Sum256(append(append(short[:0], s[:]...), key...))
	return digest(sum[:16])
}

func (d digest) compare(other digest) int { return bytes.Compare(d[:], other[:]) }
