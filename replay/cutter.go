package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// cutter splits a stream into pieces of whole lines.
type cutter struct {
	src      io.Reader
	rest     []byte // the beginning of an incomplete line
	skipping bool   // the current line exceeds a piece and is skipped
	err      error  // why reading ended: io.EOF, or an error
}

// cut fills p with as many whole lines as fit. It returns false at the end of the
// stream.
func (c *cutter) cut(p *piece) bool {
	p.text, p.spoilt = nil, ""
	for len(p.text) == 0 {
		if c.err != nil && len(c.rest) == 0 {
			return false
		}
		n := copy(p.buffer, c.rest)
		c.rest = c.rest[:0]
		n += c.fill(p.buffer[n:])
		c.cutLines(p, p.buffer[:n])
	}
	return true
}

// fill reads until buf is full or the stream ends.
func (c *cutter) fill(buf []byte) (n int) {
	for n < len(buf) && c.err == nil {
		var got int
		got, c.err = c.src.Read(buf[n:])
		n += got
	}
	return n
}

// cutLines sets p.text to the whole lines of text, if there are any, and keeps the
// rest.
func (c *cutter) cutLines(p *piece, text []byte) {
	if c.skipping {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			return
		}
		c.skipping, text = false, text[end:]
	}
	if end := bytes.LastIndexByte(text, '\n') + 1; end > 0 {
		p.text, c.rest = text[:end], append(c.rest, text[end:]...)
		return
	}
	switch {
	case len(text) == len(p.buffer):
		p.text, p.spoilt, c.skipping = text, badTooLong, true
	case c.err == nil:
		c.rest = append(c.rest, text...) // only after a line that was skipped
	default:
		p.text = text
		if c.err != io.EOF {
			p.spoilt = badCutOff
		}
	}
}

const readBuffer = 64 << 10

// unzipped returns a reader of src, which it decompresses if its first two bytes are
// those of gzip. Concatenated members are one stream.
func unzipped(src io.Reader) (r io.Reader, zipped bool, err error) {
	buffered := bufio.NewReaderSize(src, readBuffer)
	if magic, _ := buffered.Peek(2); string(magic) != "\x1f\x8b" {
		return withoutMark(buffered), false, nil
	}
	unzip, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, true, explain(err)
	}
	return withoutMark(bufio.NewReaderSize(&explained{unzip}, readBuffer)), true, nil
}

// withoutMark skips the byte order mark that some editors write.
func withoutMark(r *bufio.Reader) *bufio.Reader {
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = r.Discard(len(mark)) // the bytes are in the buffer
	}
	return r
}

// explained is a reader of gzip data whose errors name the cause.
type explained struct{ src io.Reader }

func (e *explained) Read(p []byte) (int, error) {
	n, err := e.src.Read(p)
	if err != nil && err != io.EOF {
		err = explain(err)
	}
	return n, err
}

func explain(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		return fmt.Errorf("the gzip data is truncated: %w", err)
	case errors.Is(err, gzip.ErrChecksum):
		return fmt.Errorf("the gzip data is damaged: %w", err)
	case errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("what follows the gzip data is none: %w", err)
	default:
		return err
	}
}
