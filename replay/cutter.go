package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// cutter splits a log into pieces that end at the end of a line.
type cutter struct {
	src      io.Reader
	rest     []byte // text that was read after the last whole line
	skipping bool   // whether the current line is longer than a piece; its rest is skipped
	err      error  // the error that ended reading; io.EOF at the end of the log
}

// cut fills p with as many whole lines as its buffer has room for. It returns false at
// the end of the log.
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

// fill reads until buf is full, the log ends or a read fails. It returns the number of
// bytes read and keeps the error in c.err.
func (c *cutter) fill(buf []byte) (n int) {
	for n < len(buf) && c.err == nil {
		var got int
		got, c.err = c.src.Read(buf[n:])
		n += got
	}
	return n
}

// cutLines sets p.text to the whole lines at the beginning of text, if there are any,
// and keeps what follows them in c.rest. A line that does not fit into a piece, or that
// a read error cuts off, becomes an unreadable piece.
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
		c.rest = append(c.rest, text...) // possible only after the rest of a too long line was skipped
	default:
		p.text = text
		if c.err != io.EOF {
			p.spoilt = badCutOff
		}
	}
}

const readBuffer = 64 << 10

// unzipped returns a reader of the text in src. It decompresses src if its first two
// bytes are the magic number of gzip. Several gzip members in a row are read as one
// log. A byte order mark at the beginning of the text is skipped.
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

// withoutMark skips the UTF-8 byte order mark that some editors write at the beginning
// of a file.
func withoutMark(r *bufio.Reader) *bufio.Reader {
	if mark, _ := r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = r.Discard(len(mark)) // Discard returns no error: the bytes are in the buffer
	}
	return r
}

// explained is a reader of gzip data. Its errors state what is wrong with the data.
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
		return fmt.Errorf("the text after the gzip data is not gzip data: %w", err)
	default:
		return err
	}
}
