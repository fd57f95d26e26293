package algo

import (
	"encoding/binary"
	"fmt"

	"github.com/headgate/headgate"
)

// HoldName is the part of a [headgate.HoldID] that identifies a hold among the holds of
// a key. Stores replace the other 4 bytes by a checksum: see [RequestChecksums].
type HoldName [12]byte

// NameOf returns the name of a hold.
func NameOf(id headgate.HoldID) HoldName { return HoldName(id[:len(HoldName{})]) }

// RequestChecksums has a checksum of the keys and the costs of each hold that a call
// opens. A hold is stored with the checksum in the last bytes of its id. So a request
// with the same name and other keys is a conflict, wherever the other keys are stored.
// Holds whose requests differ have the same checksum with a probability of 2⁻³².
//
// The costs are those of the request. The units that a hold charges can be fewer: if the
// policy caps them, they depend on the limit, which may change before a repetition.
type RequestChecksums map[headgate.HoldID]uint64

// Add adds a key of the hold with the given id, and the sum of its costs in the request,
// which is at most [headgate.MaxWindowUnits]. The order of the calls does not matter.
func (s RequestChecksums) Add(id headgate.HoldID, key uint64, cost int64) {
	s[id] += mix(key + mix(uint64(cost)))
}

// ID returns id with the checksum.
func (s RequestChecksums) ID(id headgate.HoldID) headgate.HoldID {
	binary.LittleEndian.PutUint32(id[len(HoldName{}):], uint32(mix(s[id])>>32))
	return id
}

// mix is the finalizer of SplitMix64: each bit of x changes half of the result's bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// CheckLimits returns an error that matches [headgate.ErrInvalidHold] if two of n ops
// that charge a key have different limits. at returns the key and the limit of op i. The
// charge of a hold is corrected under one limit, because under another one its units
// take another time to recover.
func CheckLimits[K comparable](verb headgate.HoldVerb, n int, at func(i int) (K, headgate.Limit)) error {
	if n == 1 || verb == headgate.CommitHold || verb == headgate.ExtendHold {
		return nil
	}
	limits := make(map[K]headgate.Limit, n)
	for i := range n {
		key, limit := at(i)
		if first, ok := limits[key]; ok && first != limit {
			return fmt.Errorf("%w: op %d has the key of an earlier op and the limit %s instead of %s; use one limit for each key, or one call for each limit",
				headgate.ErrInvalidHold, i+1, limit, first)
		}
		limits[key] = limit
	}
	return nil
}
