package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	linkTarget  = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|(?m:^\[[^]]+\]:\s+(\S+))|(?:src|srcset|href)="([^"]+)"`)
	headingLine = regexp.MustCompile(`^#{1,6} +(.+?)(?: +#+)?$`)
	headingLink = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	htmlTag     = regexp.MustCompile(`<[^>]+>`)
	htmlAnchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// Links refer to existing files and headings of the repository.
func TestLinks(t *testing.T) {
	t.Parallel()
	all, anchors, links := pages(t), map[string]map[string]bool{}, 0
	for _, p := range all {
		anchors[p.path] = anchorsOf(p)
	}
	for _, p := range all {
		for _, target := range targetsOf(p) {
			links++
			if problem := checkLink(p.path, target, anchors, exists); problem != "" {
				t.Errorf("%s: (%s) %s", p.path, target, problem)
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found, want at least 100", links)
	}
	t.Logf("%d links", links)
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

// checkLink returns what is wrong with a link of a page.
func checkLink(from, target string, anchors map[string]map[string]bool, exists func(string) bool) string {
	file, anchor, hasAnchor := strings.Cut(target, "#")
	found := from
	if file != "" {
		found = path.Join(path.Dir(from), file)
	}
	switch {
	case !exists(found):
		return fmt.Sprintf("refers to %s, which does not exist", found)
	case hasAnchor && anchors[found] != nil && !anchors[found][anchor]:
		return fmt.Sprintf("refers to a heading that %s does not have", found)
	}
	return ""
}

// targetsOf returns the targets in the repository that a page refers to.
func targetsOf(p page) (targets []string) {
	text := codeSpan.ReplaceAllString(strings.Join(p.prose, "\n"), "")
	for _, m := range linkTarget.FindAllStringSubmatch(text, -1) {
		target := m[1] + m[2] + m[3]
		if !strings.Contains(target, "://") && !strings.HasPrefix(target, "mailto:") {
			targets = append(targets, target)
		}
	}
	return targets
}

// anchorsOf returns the anchors that GitHub creates for the headings of a page.
func anchorsOf(p page) map[string]bool {
	found := map[string]bool{}
	for _, line := range p.prose {
		for _, m := range htmlAnchor.FindAllStringSubmatch(line, -1) {
			found[m[1]] = true
		}
		m := headingLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		anchor := slug(m[1])
		for i := 1; found[anchor]; i++ {
			anchor = fmt.Sprintf("%s-%d", slug(m[1]), i)
		}
		found[anchor] = true
	}
	return found
}

// slug returns the anchor of a heading: letters, digits, hyphens and underscores in lower
// case, and hyphens for spaces.
func slug(heading string) string {
	heading = htmlTag.ReplaceAllString(headingLink.ReplaceAllString(heading, "$1"), "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// The index links to each page in docs, except the decisions and the pictures.
func TestIndexIsComplete(t *testing.T) {
	t.Parallel()
	linked := map[string]bool{}
	for _, target := range targetsOf(parse("docs/README.md", read(t, "docs/README.md"))) {
		file, _, _ := strings.Cut(target, "#")
		linked[path.Join("docs", file)] = true
	}
	for _, p := range pages(t) {
		elsewhere := strings.HasPrefix(p.path, "docs/internals/adr/") || strings.HasPrefix(p.path, "docs/pictures/")
		if strings.HasPrefix(p.path, "docs/") && p.path != "docs/README.md" && !elsewhere && !linked[p.path] {
			t.Errorf("docs/README.md does not link to %s: add a line to its tables", p.path)
		}
	}
}
