package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Nine sentences of ten on a page have at most maxWords words.
//
// A sentence ends with its paragraph, list item or table cell at the latest. Within these
// it ends with a full stop, question mark or exclamation mark before white space, unless
// a lower-case letter follows. Code blocks, headings, comments and the addresses of links
// do not count. A code span is one word. A sentence of fewer than minWords words is a
// label and does not count, so that short table cells do not hide long ones.
const (
	maxWords = 28
	minWords = 5
)

func TestSentenceLength(t *testing.T) {
	t.Parallel()
	findings := map[string][]string{}
	for _, p := range pages(t) {
		all := sentences(p)
		if len(all) == 0 {
			continue
		}
		p90, longest := percentile90(all), all[len(all)-1]
		t.Logf("%-70s %3d sentences, p90 %2d words, max %2d", p.path, len(all), words(p90), words(longest))
		if words(p90) <= maxWords {
			continue
		}
		for _, s := range all {
			if words(s) > maxWords {
				findings[p.path] = append(findings[p.path],
					fmt.Sprintf(": p90 is %d words, must be at most %d; one of %d: %s", words(p90), maxWords, words(s), s))
			}
		}
	}
	report(t, "sentences", findings)
}

// percentile90 returns the shortest sentence that is at least as long as nine of ten.
func percentile90(sorted []string) string { return sorted[(len(sorted)*9+9)/10-1] }

func words(s string) (n int) {
	for word := range strings.FieldsSeq(s) {
		if strings.IndexFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0 {
			n++
		}
	}
	return n
}

var (
	anyComment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	image       = regexp.MustCompile(`!\[[^]]*\]\([^)]*\)`)
	link        = regexp.MustCompile(`\[([^]]*)\](?:\([^)]*\)|\[[^]]*\])`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)])\s+`)
	tableRule   = regexp.MustCompile(`^[\s|:-]+$`)
	sentenceEnd = regexp.MustCompile(`[.!?][)"”*_]*\s+`)
)

// sentences returns the sentences of a page, the shortest first, without labels.
func sentences(p page) (found []string) {
	for _, block := range paragraphs(p) {
		for _, s := range split(block) {
			if words(s) >= minWords {
				found = append(found, s)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return words(a) - words(b) })
	return found
}

// paragraphs returns the paragraphs, list items and table cells of a page as plain text.
func paragraphs(p page) (found []string) {
	text := anyComment.ReplaceAllString(strings.Join(p.prose, "\n"), "")
	text = codeSpan.ReplaceAllString(text, "CODE")
	current := ""
	flush := func() {
		found = append(found, current)
		current = ""
	}
	for line := range strings.SplitSeq(plain(text), "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "> ")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
			flush()
		case strings.HasPrefix(line, "|"):
			flush()
			if !tableRule.MatchString(line) {
				found = append(found, strings.Split(line, "|")...)
			}
		case listItem.MatchString(line):
			flush()
			current = listItem.ReplaceAllString(line, "")
		default:
			current += " " + line
		}
	}
	flush()
	return found
}

// plain replaces links by their texts and removes images and HTML tags.
func plain(text string) string {
	return htmlTag.ReplaceAllString(link.ReplaceAllString(image.ReplaceAllString(text, ""), "$1"), "")
}

// split divides a paragraph into sentences.
func split(text string) (found []string) {
	from := 0
	for _, at := range sentenceEnd.FindAllStringIndex(text, -1) {
		rest := text[at[1]:]
		if rest == "" || unicode.IsLower([]rune(rest)[0]) {
			continue
		}
		found = append(found, strings.TrimSpace(text[from:at[1]]))
		from = at[1]
	}
	return append(found, strings.TrimSpace(text[from:]))
}
