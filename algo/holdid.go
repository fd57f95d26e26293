package algo

import (
	"encoding/binary"

	"github.com/headgate/headgate"
)

// HoldName is the part of a [headgate.HoldID] that identifies a hold among the holds of
// a key. Stores replace the other 4 bytes by a checksum: see [HoldSums].
type HoldName [12]byte

// NameOf returns the name of a hold.
func NameOf(id headgate.HoldID) HoldName { return HoldName(id[:len(HoldName{})]) }

// HoldSums has a checksum of the keys and the units of each hold that a call opens. A
// hold is stored with the checksum in the last bytes of its id. So a request with the
// same name and other keys is a conflict, wherever the other keys are stored. Holds whose
// requests differ have the same checksum with a probability of 2⁻³².
type HoldSums map[headgate.HoldID]uint64

// Add adds a key of the hold with the given id, and the units that the hold charges. The
// order of the calls does not matter.
func (s HoldSums) Add(id headgate.HoldID, key uint64, units int64) {
	s[id] += mix(key + mix(uint64(units)))
}

// ID returns id with the checksum.
func (s HoldSums) ID(id headgate.HoldID) headgate.HoldID {
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
