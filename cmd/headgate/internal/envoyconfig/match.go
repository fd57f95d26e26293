package envoyconfig

import "strings"

// Entry is one entry of a request's descriptor.
type Entry struct{ Key, Value string }

// Domain is the tree of one domain's descriptors. It does not change and may be used concurrently.
type Domain struct {
	name string
	top  node
}

// Name is the domain's name.
func (d *Domain) Name() string { return d.name }

// node is one descriptor of the tree.
type node struct {
	children  map[string]*node // by key_value, or key
	wildcards []*node          // those of the children whose name has a *, in the order of the files
	pattern   string           // its own name: key_value, or key
	rule      *Rule
	shares    bool // all values that match count together
	toMetric  bool // the value goes into the name of the counters
}

// how a step was found.
type how uint8

const (
	exactly    how = iota // by key and value
	byWildcard            // by a pattern
	byKey                 // by the key alone
)

// step is one level of the way to a rule.
type step struct {
	node *node
	how  how
}

// Matcher finds rules. Its zero value is ready; used again it keeps its memory. One goroutine uses it at a time.
type Matcher struct {
	domain  *Domain
	entries []Entry
	steps   []step
	name    []byte
}

// Match finds the rule for a descriptor's entries; nil if there is none. What it found is kept for the other methods until the next
// Match, and the entries with it. It allocates nothing once its memory is large enough.
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

// Forget drops what the last Match found, so that nothing of a request is kept.
func (m *Matcher) Forget() {
	clear(m.steps)
	m.domain, m.entries, m.steps = nil, nil, m.steps[:0]
}

// child is the node below at that an entry leads to.
func (m *Matcher) child(at *node, e *Entry) (*node, how) {
	if len(at.children) == 0 {
		return nil, exactly
	}
	m.name = append(append(append(m.name[:0], e.Key...), '_'), e.Value...)
	if next, ok := at.children[string(m.name)]; ok {
		return next, exactly
	}
	for _, w := range at.wildcards {
		if glob(w.pattern, m.name) {
			return w, byWildcard
		}
	}
	return at.children[e.Key], byKey
}

// Value is what the i-th entry counts under after a Match that found a rule: its value, or the pattern if all values that match it
// count together.
func (m *Matcher) Value(i int) string {
	if s := m.steps[i]; s.how == byWildcard && s.node.shares {
		return m.patternValue(i)
	}
	return m.entries[i].Value
}

// patternValue is the part of the i-th node's pattern that stands for a value.
func (m *Matcher) patternValue(i int) string {
	pattern := m.steps[i].node.pattern
	if rest, ok := strings.CutPrefix(pattern, m.entries[i].Key); ok && strings.HasPrefix(rest, "_") {
		return rest[1:]
	}
	return pattern
}

// StatVaries reports whether the rule's counters have names that depend on the request.
func (r *Rule) StatVaries() bool { return r.Detailed || r.variable }

// AppendStat appends what statistics call the rule that the last Match found, for this request, and returns the extended buffer.
func (m *Matcher) AppendStat(dst []byte, r *Rule) []byte {
	if !r.StatVaries() {
		return append(dst, r.Path...)
	}
	dst = append(dst, m.domain.name...)
	for i := range m.steps {
		dst = append(append(dst, '.'), m.entries[i].Key...)
		if value, there := m.statValue(i, r.Detailed); there {
			dst = append(append(dst, '_'), value...)
		}
	}
	return dst
}

// statValue is what the i-th level says behind its key.
func (m *Matcher) statValue(i int, detailed bool) (value string, there bool) {
	s, value := m.steps[i], m.entries[i].Value
	switch {
	case s.how == byWildcard && (s.node.shares || !detailed && !s.node.toMetric):
		return m.patternValue(i), true
	case s.how == byKey && !detailed && !s.node.toMetric:
		return "", false
	}
	return value, detailed || value != ""
}

// AppendPath appends what statistics call a descriptor that brought its own limit: its entries, each key_value.
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

// glob reports whether text matches a pattern in which * is zero or more characters. Its time is at most the product of both lengths,
// and mostly their sum.
func glob(pattern string, text []byte) bool {
	p, t := 0, 0
	star, mark := -1, 0 // the last *, and where what it stands for ends so far
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
