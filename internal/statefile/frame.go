package statefile

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// preamble is the first line of a file. The number is the version of the format.
const (
	preambleText = "headgate state "
	preamble     = preambleText + "1\n"
)

const (
	frameMagic = "HGf1"
	// FrameHeader is the number of bytes at the beginning of a frame that
	// [Writer.Append] fills.
	FrameHeader = 24
	maxPayload  = 1 << 30
)

// Kind is the kind of a frame.
type Kind uint32

// The kinds of frames.
const (
	Header Kind = iota + 1 // the first frame of a file
	Records
	end // the last frame of a group
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewFrame returns buf without content, and with room for the header of a frame.
func NewFrame(buf []byte) []byte {
	if cap(buf) < FrameHeader {
		buf = make([]byte, FrameHeader, 1<<16)
	}
	return buf[:FrameHeader]
}

// seal fills the header of a frame.
func seal(frame []byte, group uint64, kind Kind) {
	copy(frame, frameMagic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)-FrameHeader))
	binary.LittleEndian.PutUint64(frame[8:], group)
	binary.LittleEndian.PutUint32(frame[16:], uint32(kind))
	binary.LittleEndian.PutUint32(frame[20:], sum(frame))
}

// sum returns the checksum of a frame.
func sum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[4:20], castagnoli), castagnoli, frame[FrameHeader:])
}

// frameHeader is the decoded header of a frame.
type frameHeader struct {
	length int64
	group  uint64
	kind   Kind
	sum    uint32
}

// parseHeader decodes a header. It returns false if it is not valid.
func parseHeader(b []byte) (h frameHeader, ok bool) {
	h = frameHeader{
		length: int64(binary.LittleEndian.Uint32(b[4:])), group: binary.LittleEndian.Uint64(b[8:]),
		kind: Kind(binary.LittleEndian.Uint32(b[16:])), sum: binary.LittleEndian.Uint32(b[20:]),
	}
	return h, string(b[:4]) == frameMagic && h.length <= maxPayload && h.kind >= Header && h.kind <= end
}

// isOtherVersion reports whether the first bytes of a file are those of another version.
func isOtherVersion(first string) bool {
	return len(first) == len(preamble) && strings.HasPrefix(first, preambleText) && first != preamble
}

// GroupEnd is the content of the last frame of a group.
type GroupEnd struct {
	At       int64 // instant up to which the group has all changes, in µs since the Unix epoch
	Complete bool  // whether the image that the file begins with is complete
	Closed   bool  // whether the program stopped regularly after this group
}

const endBytes = 9

func (e GroupEnd) append(b []byte) []byte {
	flags := byte(0)
	if e.Complete {
		flags |= 1
	}
	if e.Closed {
		flags |= 2
	}
	return append(binary.LittleEndian.AppendUint64(b, uint64(e.At)), flags)
}

func parseEnd(b []byte) (e GroupEnd, ok bool) {
	if len(b) != endBytes || b[8] > 3 {
		return e, false
	}
	return GroupEnd{At: int64(binary.LittleEndian.Uint64(b)), Complete: b[8]&1 != 0, Closed: b[8]&2 != 0}, true
}
