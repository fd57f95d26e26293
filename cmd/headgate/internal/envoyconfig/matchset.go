package envoyconfig

import (
	"cmp"
	"slices"
)

// The maximum number of entries that MatchSet orders, and of nodes that it visits. They
// bound the time for patterns with "*" that match many entries.
const (
	maxSetEntries = 64
	maxSetVisits  = 4096
)

// MatchSet is like [Matcher.Match] for entries without an order. It orders entries so
// that a rule matches, and returns the rule, or nil. If several orders have a rule, the
// first of them in the order of the keys applies. It returns nil for more than 64
// entries.
func (m *Matcher) MatchSet(d *Domain, entries []Entry) *Rule {
	m.domain, m.entries, m.steps = d, entries, m.steps[:0]
	if len(entries) == 0 || len(entries) > maxSetEntries {
		return nil
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	visits := maxSetVisits
	return m.matchSet(&d.top, 0, &visits)
}

// matchSet orders the entries from index i on, for the children of node at.
func (m *Matcher) matchSet(at *node, i int, visits *int) *Rule {
	for j := i; j < len(m.entries) && *visits > 0; j++ {
		*visits--
		next, how := m.child(at, &m.entries[j])
		if next == nil {
			continue
		}
		m.steps = append(m.steps, step{next, how})
		moveToFront(m.entries[i : j+1])
		rule := next.rule
		if i < len(m.entries)-1 {
			rule = m.matchSet(next, i+1, visits)
		}
		if rule != nil {
			return rule
		}
		moveToBack(m.entries[i : j+1])
		m.steps = m.steps[:i]
	}
	return nil
}

// moveToFront moves the last entry to the front.
func moveToFront(entries []Entry) {
	last := len(entries) - 1
	e := entries[last]
	copy(entries[1:], entries[:last])
	entries[0] = e
}

// moveToBack is the inverse of moveToFront.
func moveToBack(entries []Entry) {
	last := len(entries) - 1
	e := entries[0]
	copy(entries, entries[1:])
	entries[last] = e
}
