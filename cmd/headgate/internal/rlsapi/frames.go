package rlsapi

import "encoding/binary"

// The parts of HTTP/2 frames (RFC 9113) that matter for the state of requests.
const (
	prefaceLength = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frameHeader   = 9 // length of a frame's header, in bytes

	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameContinuation = 9

	flagEndStream  = 1
	flagEndHeaders = 4
	flagPadded     = 8
)

// frames finds the frames in one direction of a connection, in pieces of any size. It
// does not check them: package grpc does.
type frames struct {
	preface int // number of bytes of the client's preface that are missing
	header  [frameHeader]byte
	have    int // number of bytes of the header that have arrived
	left    int // number of bytes of the payload that are missing
	padding int // number of bytes of padding at the end of the payload; -1 if not known yet

	kind, flags byte
	id          uint32 // ID of the stream
	block       bool   // whether a block of header fields continues in the next frame
}

// partial reports whether a frame or a block of header fields has begun and is
// incomplete. The preface is not included; package grpc limits its time.
func (f *frames) partial() bool { return f.have > 0 || f.block }

// next takes bytes from the beginning of b: a header, or a part of a payload. It returns
// the rest of b, the part of a gRPC message in the payload, and whether a frame begins
// or ends with these bytes.
func (f *frames) next(b []byte) (rest, message []byte, begins, ends bool) {
	if f.preface > 0 {
		n := min(f.preface, len(b))
		f.preface -= n
		return b[n:], nil, false, false
	}
	if f.have < frameHeader {
		n := copy(f.header[f.have:], b)
		f.have += n
		if f.have == frameHeader {
			f.begin()
			return b[n:], nil, true, f.end()
		}
		return b[n:], nil, false, false
	}
	n := min(f.left, len(b))
	message = f.payload(b[:n])
	return b[n:], message, false, f.end()
}

// begin decodes the header of a frame.
func (f *frames) begin() {
	f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	f.kind, f.flags = f.header[3], f.header[4]
	f.id = binary.BigEndian.Uint32(f.header[5:]) & (1<<31 - 1)
	f.padding = 0
	if f.kind == frameData && f.flags&flagPadded != 0 {
		f.padding = -1
	}
}

// payload consumes a part of the payload and returns the part of it that belongs to a
// gRPC message.
func (f *frames) payload(b []byte) []byte {
	f.left -= len(b)
	if f.kind != frameData {
		return nil
	}
	if f.padding < 0 && len(b) > 0 {
		f.padding, b = int(b[0]), b[1:]
	}
	return b[:max(0, len(b)-max(0, f.padding-f.left))]
}

// end reports whether the frame is complete, and then prepares for the next one.
func (f *frames) end() bool {
	if f.left > 0 {
		return false
	}
	f.have = 0
	if f.kind == frameHeaders || f.kind == frameContinuation {
		f.block = f.flags&flagEndHeaders == 0
	}
	return true
}

// ends reports whether the current frame is the last one of its stream in its direction.
func (f *frames) ends() bool {
	return f.kind == frameReset || f.flags&flagEndStream != 0 && (f.kind == frameData || f.kind == frameHeaders)
}

// bufferBytes returns the size of the buffer in which package grpc stores a frame of n
// bytes: its pools have buffers of a few sizes, and small frames have none.
func bufferBytes(n int) int64 {
	switch {
	case n <= 1<<10:
		return int64(n)
	case n <= 4<<10:
		return 4 << 10
	default:
		return max(int64(n), 16<<10)
	}
}

// messages counts the gRPC messages in one direction of a stream.
type messages struct {
	complete int64   // number of complete messages
	bytes    int64   // length of all complete messages
	prefix   [5]byte // length of the current message, after one byte
	have     uint8   // number of bytes of the prefix that have arrived
	left     uint32  // number of bytes of the message that are missing
}

// partial reports whether a message has begun and is incomplete.
func (m *messages) partial() bool { return m.have > 0 }

// add consumes a part of the stream.
func (m *messages) add(b []byte) {
	for len(b) > 0 {
		if int(m.have) < len(m.prefix) {
			n := copy(m.prefix[m.have:], b)
			m.have, b = m.have+uint8(n), b[n:]
			if int(m.have) < len(m.prefix) {
				return
			}
			m.left = binary.BigEndian.Uint32(m.prefix[1:])
		}
		n := min(uint32(min(len(b), 1<<30)), m.left)
		m.left, b = m.left-n, b[n:]
		if m.left == 0 {
			m.have = 0
			m.complete++
			m.bytes += int64(binary.BigEndian.Uint32(m.prefix[1:]))
		}
	}
}
