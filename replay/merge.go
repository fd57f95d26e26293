package replay

import (
	"cmp"
	"container/heap"
	"hash/maphash"
	"slices"
)

// request is one request of the logs, with its key as text.
type request struct {
	at, cost int64
	key      string
	hash     uint64     // hash of the key
	op       *operation // nil for a take
}

// requestOf returns the request of a record with the given text.
func requestOf(rec record, text string, hash uint64) request {
	q := request{at: rec.at, cost: rec.cost, key: text, hash: hash}
	if rec.cost == costOperation {
		q.op, q.key = splitOperation(text)
		q.cost, q.hash = q.op.Cost, maphash.String(hashSeed, q.key)
	}
	return q
}

// cursor reads requests that are stored in time order.
type cursor struct {
	order   int      // position in the input; among equal times, the cursor with the lowest order comes first
	records []record // records that are loaded but not yet read; not empty while the cursor is in a merger
	names   []string // the text of each key, by the key's number
	hashes  []uint64
	refill  func(*cursor) error // loads the next records; nil if all records are loaded
}

func (c *cursor) before(other *cursor) bool {
	a, b := c.records[0].at, other.records[0].at
	return a < b || a == b && c.order < other.order
}

// merger merges the requests of several cursors into one sequence in time order. It
// does not compare cursors whose first record is later than the current one. Merging
// the pieces of a log that is almost in time order is therefore cheap.
type merger struct {
	waiting []*cursor // cursors that are not yet active, sorted by their first time
	active  cursorHeap
}

func newMerger(cursors []*cursor) (*merger, error) {
	m := &merger{}
	for _, c := range cursors {
		more, err := c.ready()
		if err != nil {
			return nil, err
		}
		if more {
			m.waiting = append(m.waiting, c)
		}
	}
	slices.SortFunc(m.waiting, func(a, b *cursor) int {
		if a.records[0].at != b.records[0].at {
			return cmp.Compare(a.records[0].at, b.records[0].at)
		}
		return cmp.Compare(a.order, b.order)
	})
	return m, nil
}

// ready reports whether the cursor has a record. It loads more records if none is left.
func (c *cursor) ready() (bool, error) {
	if len(c.records) == 0 && c.refill != nil {
		if err := c.refill(c); err != nil {
			return false, err
		}
	}
	return len(c.records) > 0, nil
}

// next appends requests to batch until batch has reached its capacity or no request is
// left.
func (m *merger) next(batch []request) ([]request, error) {
	for len(batch) < cap(batch) {
		m.wake()
		if len(m.active) == 0 {
			return batch, nil
		}
		top := m.active[0]
		n := m.lead(top, cap(batch)-len(batch))
		for _, rec := range top.records[:n] {
			batch = append(batch, requestOf(rec, top.names[rec.key], top.hashes[rec.key]))
		}
		top.records = top.records[n:]
		if err := m.settle(top); err != nil {
			return batch, err
		}
	}
	return batch, nil
}

// wake moves cursors from waiting to active if their first record is not later than the
// earliest record of the active cursors.
func (m *merger) wake() {
	for len(m.waiting) > 0 && (len(m.active) == 0 || m.waiting[0].records[0].at <= m.active[0].records[0].at) {
		heap.Push(&m.active, m.waiting[0])
		m.waiting = m.waiting[1:]
	}
}

// lead returns how many of top's first records come before all records of other
// cursors, but no more than the parameter most. It returns at least 1.
func (m *merger) lead(top *cursor, most int) int {
	records := top.records[:min(most, len(top.records))]
	for _, rival := range m.rivals() {
		records = records[:1+untilRival(records[1:], top.order, rival)]
	}
	return len(records)
}

// rivals returns the cursors whose first record can be the earliest record outside the
// top cursor: the two children of the top cursor in the heap, and the first cursor in
// waiting.
func (m *merger) rivals() []*cursor {
	rivals := m.active[1:min(3, len(m.active))]
	if len(m.waiting) > 0 {
		rivals = append(rivals[:len(rivals):len(rivals)], m.waiting[0])
	}
	return rivals
}

// untilRival returns how many of records come before the first record of rival. order
// is the order of the cursor that contains records.
func untilRival(records []record, order int, rival *cursor) int {
	first := rival.records[0].at
	for n, rec := range records {
		if rec.at > first || rec.at == first && order > rival.order {
			return n
		}
	}
	return len(records)
}

// settle restores the order of the heap after records of top, its first cursor, were
// read. It removes top if no record is left.
func (m *merger) settle(top *cursor) error {
	more, err := top.ready()
	switch {
	case err != nil:
		return err
	case more:
		heap.Fix(&m.active, 0)
	default:
		heap.Pop(&m.active)
	}
	return nil
}

// cursorHeap is a heap of cursors. The cursor with the earliest record is first.
type cursorHeap []*cursor

func (h cursorHeap) Len() int           { return len(h) }
func (h cursorHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h cursorHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursorHeap) Push(c any)        { *h = append(*h, c.(*cursor)) }
func (h *cursorHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}
