package statefile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Contents describe a file that was read completely and checked.
type Contents struct {
	Path   string
	Header []byte // payload of the first frame
	Size   int64
	// End is the end of the last complete group. What follows was being written when the
	// program stopped.
	End    int64
	Groups int      // number of complete groups
	Last   GroupEnd // end of the last complete group

	first, last uint64 // numbers of the header and of the last complete group
}

// Cut returns the number of bytes after the last complete group.
func (c *Contents) Cut() int64 { return c.Size - c.End }

// Corrupt returns the error for contents that are not valid.
func (c *Contents) Corrupt(err error) error {
	return &Error{Path: c.Path, Kind: ErrCorrupt, Detail: "invalid state", Advice: startEmpty, Err: err}
}

// source is a file that is read.
type source interface {
	io.ReaderAt
	io.Closer
}

// Check reads the file at path and checks it.
func Check(path string) (*Contents, error) {
	file, size, err := openForRead(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return scan(file, path, size)
}

func openForRead(path string) (source, int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, accessError(path, "", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(accessError(path, "", err), file.Close())
	}
	return file, info.Size(), nil
}

// Replay calls apply with the payload of each frame with records in complete groups, in
// order. The payload is valid only during the call.
func (c *Contents) Replay(apply func(payload []byte) error) error {
	file, _, err := openForRead(c.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	return c.replay(file, apply)
}

func (c *Contents) replay(file io.ReaderAt, apply func([]byte) error) error {
	r := newFrameReader(file, int64(len(preamble)), c.End)
	for r.offset < c.End {
		at := r.offset
		h, payload, err := r.next()
		if err == nil && h.kind == Records {
			err = apply(payload)
		}
		if err != nil {
			return corrupt(c.Path, at, "%v", err)
		}
	}
	return nil
}

// scan checks a file of the given size.
func scan(file io.ReaderAt, path string, size int64) (*Contents, error) {
	c := &Contents{Path: path, Size: size}
	if err := c.readBegin(file); err != nil {
		return nil, err
	}
	r := newFrameReader(file, c.End, size)
	for r.offset < size {
		if err := c.readGroup(r); err != nil {
			if later, ok := laterGroup(file, c.last+1, r.failedAt, size); ok {
				return nil, corrupt(path, r.failedAt, "%v, but group %d, which was written later, is valid", err, later)
			}
			break
		}
	}
	if !c.Last.Complete {
		return nil, corrupt(path, c.End, "the image at the beginning of the file is not complete")
	}
	return c, nil
}

// readBegin reads the preamble and the header.
func (c *Contents) readBegin(file io.ReaderAt) error {
	first := make([]byte, len(preamble))
	n, err := file.ReadAt(first, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return accessError(c.Path, "", err)
	}
	if string(first[:n]) != preamble {
		if isOtherVersion(string(first[:n])) {
			return &Error{
				Path: c.Path, Kind: ErrVersion, Detail: fmt.Sprintf("the format is %q; this version reads %q", first[:n], preamble),
				Advice: "use the version of Headgate that wrote it; or rename the folder to start with no state",
			}
		}
		return corrupt(c.Path, 0, "the first line is not %q", preamble)
	}
	r := newFrameReader(file, int64(n), c.Size)
	h, payload, err := r.next()
	if err == nil && h.kind != Header {
		err = errors.New("the first frame is not a header")
	}
	if err != nil {
		return corrupt(c.Path, int64(n), "%v", err)
	}
	c.Header, c.End, c.first, c.last = bytes.Clone(payload), r.offset, h.group, h.group
	return nil
}

// readGroup reads the next group up to its end.
func (c *Contents) readGroup(r *frameReader) error {
	for {
		r.failedAt = r.offset
		h, payload, err := r.next()
		switch {
		case err != nil:
			return err
		case h.group != c.last+1:
			return fmt.Errorf("a frame of group %d follows group %d", h.group, c.last)
		case h.kind == Header:
			return errors.New("a second header")
		case h.kind != end:
			continue
		}
		last, ok := parseEnd(payload)
		if !ok {
			return errors.New("invalid end of a group")
		}
		last.Complete = last.Complete || c.Last.Complete
		c.Last, c.End = last, r.offset
		c.last++
		c.Groups++
		return nil
	}
}

// frameReader reads frames one after another.
type frameReader struct {
	buf      *bufio.Reader
	offset   int64
	size     int64
	failedAt int64 // offset of the frame that readGroup has read last
	header   [FrameHeader]byte
	frame    []byte
}

// newFrameReader returns a reader of the frames from offset to size.
func newFrameReader(file io.ReaderAt, offset, size int64) *frameReader {
	section := io.NewSectionReader(file, offset, size-offset)
	return &frameReader{buf: bufio.NewReaderSize(section, 1<<16), offset: offset, size: size}
}

// next returns the next frame. The payload is valid until the next call.
func (r *frameReader) next() (frameHeader, []byte, error) {
	if _, err := io.ReadFull(r.buf, r.header[:]); err != nil {
		return frameHeader{}, nil, errors.New("the file ends within a frame")
	}
	h, ok := parseHeader(r.header[:])
	switch {
	case !ok:
		return h, nil, errors.New("invalid header of a frame")
	case h.length > r.size-r.offset-FrameHeader:
		return h, nil, errors.New("the file ends within a frame")
	}
	r.frame = append(r.frame[:0], r.header[:]...)
	if n := FrameHeader + int(h.length); cap(r.frame) < n {
		r.frame = append(make([]byte, 0, n), r.header[:]...)
	}
	r.frame = r.frame[:FrameHeader+h.length]
	if _, err := io.ReadFull(r.buf, r.frame[FrameHeader:]); err != nil {
		return h, nil, fmt.Errorf("read: %w", err)
	}
	if sum(r.frame) != h.sum {
		return h, nil, errors.New("the checksum of a frame is wrong")
	}
	r.offset += int64(len(r.frame))
	return h, r.frame[FrameHeader:], nil
}

// laterGroup searches for a valid frame after the given offset whose group is later than
// the parameter group.
func laterGroup(file io.ReaderAt, group uint64, offset, size int64) (uint64, bool) {
	const window = 1 << 20
	buf := make([]byte, window)
	for at := offset + 1; at < size; at += window - FrameHeader {
		n, _ := file.ReadAt(buf[:min(window, size-at)], at)
		for i := 0; ; i++ {
			next := bytes.Index(buf[i:n], []byte(frameMagic))
			if next < 0 {
				break
			}
			i += next
			if g, ok := validFrame(file, at+int64(i), size); ok && g > group {
				return g, true
			}
		}
	}
	return 0, false
}

// validFrame reports whether a valid frame begins at the offset, and returns its group.
func validFrame(file io.ReaderAt, at, size int64) (uint64, bool) {
	var header [FrameHeader]byte
	if _, err := file.ReadAt(header[:], at); err != nil {
		return 0, false
	}
	h, ok := parseHeader(header[:])
	if !ok || h.length > size-at-FrameHeader {
		return 0, false
	}
	frame := append(make([]byte, 0, FrameHeader+h.length), header[:]...)[:FrameHeader+h.length]
	if _, err := file.ReadAt(frame[FrameHeader:], at+FrameHeader); err != nil {
		return 0, false
	}
	return h.group, sum(frame) == h.sum
}
