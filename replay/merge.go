package replay

import (
	"cmp"
	"container/heap"
	"slices"
)

// request is one request of the log in time order.
type request struct {
	at, cost int64
	key      string
	hash     uint64 // of the key
}

// cursor iterates over requests in time order.
type cursor struct {
	order   int      // the input order of cursors: among equal times, the lowest comes first
	records []record // loaded records; not empty while the cursor is in a merger
	names   []string // of the keys, by their numbers
	hashes  []uint64
	refill  func(*cursor) error // loads more records; nil if all are loaded
}

func (c *cursor) before(other *cursor) bool {
	a, b := c.records[0].at, other.records[0].at
	return a < b || a == b && c.order < other.order
}

// merger merges the requests of several cursors into one time order. Cursors that begin
// later are not touched, so that merging pieces of a log that is almost in order is
// cheap.
type merger struct {
	waiting []*cursor // sorted by their first times
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

// ready reports whether the cursor has a record, after a refill if necessary.
func (c *cursor) ready() (bool, error) {
	if len(c.records) == 0 && c.refill != nil {
		if err := c.refill(c); err != nil {
			return false, err
		}
	}
	return len(c.records) > 0, nil
}

// next appends requests to batch until it is full or no request is left.
func (m *merger) next(batch []request) ([]request, error) {
	for len(batch) < cap(batch) {
		m.wake()
		if len(m.active) == 0 {
			return batch, nil
		}
		top := m.active[0]
		n := m.lead(top, cap(batch)-len(batch))
		for _, rec := range top.records[:n] {
			batch = append(batch, request{at: rec.at, cost: rec.cost, key: top.names[rec.key], hash: top.hashes[rec.key]})
		}
		top.records = top.records[n:]
		if err := m.settle(top); err != nil {
			return batch, err
		}
	}
	return batch, nil
}

// wake activates the waiting cursors that begin no later than the first active one.
func (m *merger) wake() {
	for len(m.waiting) > 0 && (len(m.active) == 0 || m.waiting[0].records[0].at <= m.active[0].records[0].at) {
		heap.Push(&m.active, m.waiting[0])
		m.waiting = m.waiting[1:]
	}
}

// lead returns how many of top's records, at most most, come before all other records.
func (m *merger) lead(top *cursor, most int) int {
	records := top.records[:min(most, len(top.records))]
	for _, rival := range m.rivals() {
		records = records[:1+untilRival(records[1:], top.order, rival)]
	}
	return len(records)
}

// rivals returns the cursors of which one comes next after the first.
func (m *merger) rivals() []*cursor {
	rivals := m.active[1:min(3, len(m.active))]
	if len(m.waiting) > 0 {
		rivals = append(rivals[:len(rivals):len(rivals)], m.waiting[0])
	}
	return rivals
}

// untilRival returns how many of records, from a cursor with that order, come before
// rival's first record.
func untilRival(records []record, order int, rival *cursor) int {
	first := rival.records[0].at
	for n, rec := range records {
		if rec.at > first || rec.at == first && order > rival.order {
			return n
		}
	}
	return len(records)
}

// settle restores the order after top has advanced.
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

// cursorHeap is a heap of cursors; the one with the earliest record is first.
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
