package replay

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// spill is a temporary file for requests that do not fit into memory. It contains one
// or more runs, which are sequences of requests in time order. The file is created when
// the first run is written.
//
// A request is encoded as three uvarints and the key: time since the previous request
// of the run in µs, cost, length of the key in bytes, text of the key.
type spill struct {
	dir   string // directory of the file; empty means the default of the system
	file  *os.File
	named bool    // whether the file has a name and must be removed by close
	runs  []int64 // the offset in the file at which each run ends
	bytes int64
}

const (
	spillBuffer = 1 << 20
	// A spilled run is read back in blocks. A block ends after windowRecords records,
	// or after windowBytes bytes of keys.
	windowBytes   = 16 << 10
	windowRecords = 512
)

// add writes the requests of r to the file, in time order, and empties r.
func (s *spill) add(r *run) error {
	if err := s.write(r); err != nil {
		return fmt.Errorf("replay: the requests do not fit into memory, and writing them to a temporary file in %s failed: %w; "+
			"allow more memory or set TMPDIR to a directory with enough space", s.place(), err)
	}
	*r = run{}
	runtime.GC() // frees the memory of the old run before the next run allocates
	return nil
}

func (s *spill) place() string {
	if s.dir == "" {
		return os.TempDir()
	}
	return s.dir
}

func (s *spill) write(r *run) error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "headgate-replay-*")
		if err != nil {
			return err
		}
		s.file = file
		s.named = os.Remove(file.Name()) != nil // some systems cannot remove a file that is open
	}
	m, err := newMerger(r.cursors())
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(s.file, spillBuffer)
	if err := s.writeAll(w, m); err != nil {
		return err
	}
	s.runs = append(s.runs, s.bytes)
	return w.Flush()
}

func (s *spill) writeAll(w *bufio.Writer, m *merger) error {
	var head []byte
	batch, last := make([]request, 0, batchSize), int64(0)
	for {
		var err error
		if batch, err = m.next(batch[:0]); err != nil || len(batch) == 0 {
			return err
		}
		for _, q := range batch {
			if q.op != nil {
				q.cost, q.key = costOperation, string(q.op.withKey([]byte(q.key)))
			}
			head = binary.AppendUvarint(head[:0], uint64(q.at-last))
			head = binary.AppendUvarint(head, uint64(q.cost))
			head = binary.AppendUvarint(head, uint64(len(q.key)))
			last = q.at
			_, _ = w.Write(head) // Flush returns the error of an earlier write
			_, _ = w.WriteString(q.key)
			s.bytes += int64(len(head) + len(q.key))
		}
	}
}

// cursors returns one cursor for each run, in input order. Each cursor has a read
// buffer of ahead bytes.
func (s *spill) cursors(ahead int) []*cursor {
	cursors, start := make([]*cursor, len(s.runs)), int64(0)
	for i, end := range s.runs {
		section := io.NewSectionReader(s.file, start, end-start)
		run := &spilledRun{src: bufio.NewReaderSize(section, ahead)}
		cursors[i] = &cursor{order: i, refill: run.refill}
		start = end
	}
	return cursors
}

// close closes and removes the file, if there is one.
func (s *spill) close() {
	if s.file == nil {
		return
	}
	_ = s.file.Close() // an error is ignored: the content is not needed any more
	if s.named {
		_ = os.Remove(s.file.Name())
	}
}

// spilledRun reads a run of requests back from the temporary file, in blocks of at most
// windowRecords records.
type spilledRun struct {
	src     *bufio.Reader
	last    int64
	key     []byte
	records []record
}

// refill loads the next block of records into c. Every record gets a new key number, so
// equal keys may have several numbers.
func (r *spilledRun) refill(c *cursor) error {
	var text strings.Builder
	text.Grow(windowBytes)
	r.records, c.names, c.hashes = r.records[:0], c.names[:0], c.hashes[:0]
	for len(r.records) < windowRecords && text.Len() < windowBytes {
		rec, err := r.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("replay: read back from the temporary file: %w", err)
		}
		rec.key = uint32(len(c.names))
		start := text.Len()
		text.Write(r.key)
		c.names = append(c.names, text.String()[start:])
		c.hashes = append(c.hashes, maphash.Bytes(hashSeed, r.key))
		r.records = append(r.records, rec)
	}
	c.records = r.records
	return nil
}

// read reads the next record, and its key into r.key. It returns io.EOF at the end of
// the run.
func (r *spilledRun) read() (rec record, err error) {
	var fields [3]uint64
	for i := range fields {
		if fields[i], err = binary.ReadUvarint(r.src); err != nil {
			return rec, err
		}
	}
	r.last += int64(fields[0])
	rec.at, rec.cost = r.last, int64(fields[1])
	r.key = slices.Grow(r.key[:0], int(fields[2]))[:fields[2]]
	_, err = io.ReadFull(r.src, r.key)
	return rec, err
}
