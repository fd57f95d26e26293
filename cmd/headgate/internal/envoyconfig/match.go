package envoyconfig

import (
	"bytes"
	"strings"
)

// Entry is one entry of a request's descriptor.
type Entry struct{ Key, Value string }

// Domain is the descriptor tree of one domain. It is immutable and may be used
// concurrently.
type Domain struct {
	name string
	top  node
}

// Name returns the domain's name.
func (d *Domain) Name() string { return d.name }

// node is one descriptor of a descriptor tree.
type node struct {
	children      map[string]*node // children by their pattern
	wildcards     []*node          // children whose pattern contains "*", in the order of the file
	pattern       string           // key_value, or only the key if the descriptor has no value
	parts         [][]byte         // parts of pattern between each "*"
	rule          *Rule
	sharesCount   bool // all values that match the pattern share one count (share_threshold)
	valueToMetric bool // metric names contain the value of the request (value_to_metric)
}

// matchKind is the way in which an entry of a request matched a node.
type matchKind uint8

const (
	matchExact    matchKind = iota // key and value are equal
	matchWildcard                  // a pattern with "*" matches key and value
	matchKey                       // only the key is equal; the node has no value
)

// step is one level of the path from the domain to a rule.
type step struct {
	node *node
	how  matchKind
}

// Matcher finds the rule for a descriptor. The zero value is ready for use. A Matcher
// that is reused also reuses its buffers. It must not be used concurrently.
type Matcher struct {
	domain  *Domain
	entries []Entry
	steps   []step
	name    []byte
}

// Match returns the rule for the entries of a descriptor, or nil. The other methods
// refer to the last call of Match, and the Matcher retains entries until the next call
// or until Forget. Match does not allocate once the Matcher's buffers are large enough.
func (m *Matcher) Match(d *Domain, entries []Entry) *Rule {
	m.domain, m.entries, m.steps = d, entries, m.steps[:0]
	at := &d.top
	for i := range entries {
		next, how := m.child(at, &entries[i])
		if next == nil {
			return nil
		}
		m.steps = append(m.steps, step{next, how})
		if i == len(entries)-1 {
			return next.rule
		}
		at = next
	}
	return nil
}

// Forget discards the result of the last Match, so that the Matcher does not retain
// data of the request.
func (m *Matcher) Forget() {
	clear(m.steps)
	m.domain, m.entries, m.steps = nil, nil, m.steps[:0]
}

// Size returns the size of the Matcher's buffer, in bytes, so that the caller can discard
// a Matcher after an entry that was large.
func (m *Matcher) Size() int { return cap(m.name) }

// child returns the child of node at that matches the entry, or nil.
func (m *Matcher) child(at *node, e *Entry) (*node, matchKind) {
	if len(at.children) == 0 {
		return nil, matchExact
	}
	m.name = append(append(append(m.name[:0], e.Key...), '_'), e.Value...)
	if next, ok := at.children[string(m.name)]; ok {
		return next, matchExact
	}
	for _, w := range at.wildcards {
		if glob(w.parts, m.name) {
			return w, matchWildcard
		}
	}
	return at.children[e.Key], matchKey
}

// Value returns the value to use in the key of the i-th entry after a Match that found
// a rule. This is the value of the entry, or the value part of the pattern if all
// matching values share one count.
func (m *Matcher) Value(i int) string {
	if s := m.steps[i]; s.how == matchWildcard && s.node.sharesCount {
		return m.patternValue(i)
	}
	return m.entries[i].Value
}

// patternValue returns the value part of the pattern of the i-th matched node.
func (m *Matcher) patternValue(i int) string {
	pattern := m.steps[i].node.pattern
	if rest, ok := strings.CutPrefix(pattern, m.entries[i].Key); ok && strings.HasPrefix(rest, "_") {
		return rest[1:]
	}
	return pattern
}

// StatVaries reports whether the metric name of the rule depends on the request.
func (r *Rule) StatVaries() bool { return r.Detailed || r.variableName }

// AppendStat appends the metric name of rule r, which the last call of Match returned,
// to dst and returns the extended buffer.
func (m *Matcher) AppendStat(dst []byte, r *Rule) []byte {
	if !r.StatVaries() {
		return append(dst, r.Path...)
	}
	dst = append(dst, m.domain.name...)
	for i := range m.steps {
		dst = append(append(dst, '.'), m.entries[i].Key...)
		if value, ok := m.statValue(i, r.Detailed); ok {
			dst = append(append(dst, '_'), value...)
		}
	}
	return dst
}

// statValue returns the value that the i-th level has in the metric name. If the level
// has only a key there, ok is false.
func (m *Matcher) statValue(i int, detailed bool) (value string, ok bool) {
	s, value := m.steps[i], m.entries[i].Value
	switch {
	case s.how == matchWildcard && (s.node.sharesCount || !detailed && !s.node.valueToMetric):
		return m.patternValue(i), true
	case s.how == matchKey && !detailed && !s.node.valueToMetric:
		return "", false
	}
	return value, detailed || value != ""
}

// AppendPath appends to dst the metric name of a descriptor of which the request
// specifies the limit: the domain and the entries as key_value.
func AppendPath(dst []byte, domain string, entries []Entry) []byte {
	dst = append(append(dst, domain...), '.')
	for i := range entries {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = append(dst, entries[i].Key...)
		if entries[i].Value != "" {
			dst = append(append(dst, '_'), entries[i].Value...)
		}
	}
	return dst
}

// glob reports whether text matches a pattern in which "*" matches zero or more bytes.
// parts are the parts of the pattern between each "*", of which there is at least one.
// The time is proportional to the length of text for each part.
func glob(parts [][]byte, text []byte) bool {
	text, ok := bytes.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		i := bytes.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return bytes.HasSuffix(text, parts[last])
}
