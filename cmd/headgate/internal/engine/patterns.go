package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// patternOverride is the override of the keys that match a pattern.
type patternOverride struct {
	pattern routing.Pattern
	override
}

// patterns are the overrides by pattern. A key is compared only with the patterns whose
// text before the first star, or else after the last star, it begins or ends with.
type patterns struct {
	all      []patternOverride // the one that applies first comes first
	prefixes affixes           // patterns that do not begin with a star
	suffixes affixes           // all other patterns
}

// affixes are the indexes of patterns by their prefixes or suffixes.
type affixes struct {
	byText  map[string][]int // indexes in ascending order
	lengths []int            // lengths of the texts
}

func (a *affixes) add(text string, i int) {
	if a.byText == nil {
		a.byText = make(map[string][]int)
	}
	if !slices.Contains(a.lengths, len(text)) {
		a.lengths = append(a.lengths, len(text))
	}
	a.byText[text] = append(a.byText[text], i)
}

// index sorts the patterns by their precedence, and indexes them.
func (p *patterns) index() {
	slices.SortStableFunc(p.all, func(a, b patternOverride) int {
		return cmp.Or(cmp.Compare(b.pattern.Literals(), a.pattern.Literals()), strings.Compare(a.pattern.String(), b.pattern.String()))
	})
	for i := range p.all {
		if prefix := p.all[i].pattern.Prefix(); prefix != "" {
			p.prefixes.add(prefix, i)
		} else {
			p.suffixes.add(p.all[i].pattern.Suffix(), i)
		}
	}
}

// of returns the override of the first pattern that matches a key, or nil.
func (p *patterns) of(key string) *override {
	first := len(p.all)
	for _, n := range p.prefixes.lengths {
		if n <= len(key) {
			first = p.firstMatch(p.prefixes.byText[key[:n]], key, first)
		}
	}
	for _, n := range p.suffixes.lengths {
		if n <= len(key) {
			first = p.firstMatch(p.suffixes.byText[key[len(key)-n:]], key, first)
		}
	}
	if first == len(p.all) {
		return nil
	}
	return &p.all[first].override
}

// firstMatch returns the first of the candidates below first that matches a key, or else
// first.
func (p *patterns) firstMatch(candidates []int, key string, first int) int {
	for _, i := range candidates {
		if i >= first {
			break
		}
		if p.all[i].pattern.Matches(key) {
			return i
		}
	}
	return first
}
