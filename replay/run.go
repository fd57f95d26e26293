package replay

import "slices"

// run holds requests in memory: blocks of records, each block in time order, and the
// keys of all blocks. The zero value is empty.
type run struct {
	blocks  [][]record
	keys    keyTable
	held    int64 // memory of the blocks, in bytes
	numbers []uint32
}

const (
	recordSize = 24
	blockSize  = 24 + 64 // memory of a block in addition to its records: slice header and cursor
)

// add copies the records of p. It replaces the key numbers of the piece by those of the
// table r.keys.
func (r *run) add(p *piece) {
	if len(p.records) == 0 {
		return
	}
	r.numbers = slices.Grow(r.numbers[:0], p.keys.len())
	for i, name := range p.keys.names {
		r.numbers = append(r.numbers, r.keys.intern(p.keys.hashes[i], []byte(name)))
	}
	block := make([]record, len(p.records))
	for i, rec := range p.records {
		rec.key = r.numbers[rec.key]
		block[i] = rec
	}
	r.blocks = append(r.blocks, block)
	r.held += int64(len(block))*recordSize + blockSize
}

// bytes returns the number of bytes of memory that the run uses.
func (r *run) bytes() int64 { return r.held + r.keys.bytes() }

// cursors returns one cursor for each block, in input order.
func (r *run) cursors() []*cursor {
	cursors := make([]*cursor, len(r.blocks))
	for i, block := range r.blocks {
		cursors[i] = &cursor{order: i, records: block, names: r.keys.names, hashes: r.keys.hashes}
	}
	return cursors
}
