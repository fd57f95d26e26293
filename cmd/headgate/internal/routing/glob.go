package routing

import "strings"

// Pattern matches texts. “*” matches any text, also an empty one; every other character
// matches itself. Case is significant. The zero value matches the empty text.
type Pattern struct {
	text  string
	parts []string // text split at “*”
}

// Limits on the size of a pattern.
const (
	maxPatternBytes = 256
	maxPatternStars = 8
)

// ParsePattern parses a pattern such as acme-* or pro. If it is invalid, the error is a
// [*SyntaxError].
func ParsePattern(text string) (Pattern, error) {
	switch {
	case len(text) > maxPatternBytes:
		return Pattern{}, &SyntaxError{"pattern", text, 0, 0, "has more than 256 bytes"}
	case strings.Count(text, "*") > maxPatternStars:
		return Pattern{}, &SyntaxError{"pattern", text, 0, 0, "has more than 8 stars"}
	}
	if i := strings.Index(text, "**"); i >= 0 {
		return Pattern{}, &SyntaxError{"pattern", text, i, 2, "is written *, which matches any text"}
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7f {
			return Pattern{}, &SyntaxError{"pattern", text, i, 1, "is a control character"}
		}
	}
	return Pattern{text, strings.Split(text, "*")}, nil
}

// String returns the text of the pattern.
func (p Pattern) String() string { return p.text }

// IsExact reports whether the pattern has no star, so that it matches a single text.
func (p Pattern) IsExact() bool { return len(p.parts) < 2 }

// Prefix returns the text before the first star, and Suffix the text after the last star.
// Every text that the pattern matches begins and ends with them. For a pattern without a
// star, both are the whole text.
func (p Pattern) Prefix() string { return p.part(0) }

// Suffix returns the text after the last star; see [Pattern.Prefix].
func (p Pattern) Suffix() string { return p.part(len(p.parts) - 1) }

func (p Pattern) part(i int) string {
	if len(p.parts) == 0 { // the zero value
		return ""
	}
	return p.parts[i]
}

// Literals returns the number of bytes of the pattern without stars. Of two patterns,
// the one with more of them is usually the narrower.
func (p Pattern) Literals() int { return len(p.text) - max(0, len(p.parts)-1) }

// Matches reports whether the pattern matches text. Its running time is at most
// proportional to the length of the text times that of the pattern.
func (p Pattern) Matches(text string) bool {
	if p.IsExact() {
		return text == p.text
	}
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	rest := text[len(first) : len(text)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}

// covers reports whether p matches every text that the pattern other matches. The result
// true is always correct; the result false may be wrong.
func (p Pattern) covers(other Pattern) bool {
	return p.text == "*" || p.text == other.text || other.IsExact() && p.Matches(other.text)
}
