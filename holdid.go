package headgate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// maxHoldIDLen is the maximum length of [HoldOptions].ID, in bytes.
const maxHoldIDLen = 128

// HoldID identifies a hold among the holds of a key. It is the first 16 bytes of the
// SHA-256 of [HoldOptions.ID], or random if that is empty. A store compares at least the
// first 12 bytes.
type HoldID [16]byte

// NewHoldID returns a random id.
func NewHoldID() (id HoldID) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

// HoldIDOf returns the id of a hold whose [HoldOptions.ID] is text, for [ResumeHold]. If
// text is empty, it returns a random id. A text of more than 128 bytes is an
// [ErrInvalidHold].
func HoldIDOf(text string) (id HoldID, err error) {
	if len(text) > maxHoldIDLen {
		return id, fmt.Errorf("%w: its id has %d bytes; must be 1 to %d", ErrInvalidHold, len(text), maxHoldIDLen)
	}
	if text == "" {
		return NewHoldID(), nil
	}
	sum := sha256.Sum256([]byte(text))
	copy(id[:], sum[:])
	return id, nil
}

// ParseHoldID reads an id that [HoldID.String] has written, for example one that another
// process has sent. Anything but 32 hexadecimal digits is an [ErrInvalidHold].
func ParseHoldID(text string) (id HoldID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%w: %.50q is not an id; must be %d hexadecimal digits", ErrInvalidHold, text, 2*len(id))
	}
	return HoldID(b), nil
}

// String returns the id as 32 hexadecimal digits. [ParseHoldID] reads it.
func (id HoldID) String() string { return hex.EncodeToString(id[:]) }
