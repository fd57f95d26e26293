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

// spill is a temporary file of runs, each in time order, for what memory does not hold. It is made with the first run.
//
// A request is written as uvarints: the µs since the one before it in its run, the cost, the length of the key; then the key.
type spill struct {
	dir   string // where the file is; empty means the system's directory for such
	file  *os.File
	named bool    // the file has its name still
	runs  []int64 // where each run ends
	bytes int64
}

const (
	spillBuffer = 1 << 20
	// window is how many bytes of keys, or how many records, of a spilled run are brought into memory at once.
	windowBytes   = 16 << 10
	windowRecords = 512
)

// add writes the requests of r and leaves it empty.
func (s *spill) add(r *run) error {
	if err := s.write(r); err != nil {
		return fmt.Errorf("replay: the log needs more than the memory it may use, and spilling to %s broke: %w; "+
			"allow more memory or set TMPDIR to where there is room", s.place(), err)
	}
	*r = run{}
	runtime.GC() // now, when next to nothing is held: else the next run would come on top of this one
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
		s.named = os.Remove(file.Name()) != nil // without a name it is gone with the process; not every system allows that
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
			head = binary.AppendUvarint(head[:0], uint64(q.at-last))
			head = binary.AppendUvarint(head, uint64(q.cost))
			head = binary.AppendUvarint(head, uint64(len(q.key)))
			last = q.at
			_, _ = w.Write(head) // an error stays with w until Flush
			_, _ = w.WriteString(q.key)
			s.bytes += int64(len(head) + len(q.key))
		}
	}
}

// cursors walk the runs, in input order. Each reads ahead up to ahead bytes.
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

// close removes the file.
func (s *spill) close() {
	if s.file == nil {
		return
	}
	_ = s.file.Close() // it is thrown away
	if s.named {
		_ = os.Remove(s.file.Name())
	}
}

// spilledRun reads a run back, a window at a time.
type spilledRun struct {
	src     *bufio.Reader
	last    int64
	key     []byte
	records []record
}

// refill brings the next window of the run. Keys are not numbered by what they are, only by where they stand.
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

// read is the next record, its key in r.key, or io.EOF.
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
