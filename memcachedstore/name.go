package memcachedstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// digest tells keys apart: 128 bits of SHA-256. Two keys that share one would share a bucket; nobody can make such a pair.
type digest [16]byte

// name is the digest's key in memcached: 25 bytes, all of them fine in its protocol, whatever the user's key holds.
func (d digest) name() string { return "hg:" + base64.RawURLEncoding.EncodeToString(d[:]) }

// scope is whose keys they are: a hash of a namespace, an algorithm and a rule's scope, each with its length before it, so that
// no two triples are the same text.
type scope [sha256.Size]byte

func newScope(namespace, algorithm, ruleScope string) scope {
	var b []byte
	for _, part := range []string{namespace, algorithm, ruleScope} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// digest is that of a key of any bytes. The scope before it has one length, so the two need nothing between them.
func (s *scope) digest(key string) digest {
	var short [192]byte
	sum := sha256.Sum256(append(append(short[:0], s[:]...), key...))
	return digest(sum[:16])
}

func (d digest) compare(other digest) int { return bytes.Compare(d[:], other[:]) }
