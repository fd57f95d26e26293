package headgate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	docFence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	docCode    = regexp.MustCompile("`[^`\n]*`")
	docLink    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	docHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	docMark    = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)
)

// Links in documents refer to existing files and headings.
func TestLinksInDocsResolve(t *testing.T) {
	t.Parallel()
	links := 0
	for _, file := range docFiles(t) {
		for _, target := range docLinks(t, file) {
			links++
			path, anchor, hasAnchor := strings.Cut(target, "#")
			found := file
			if path != "" {
				found = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(found); err != nil {
				t.Errorf("%s: (%s) leads nowhere", file, target)
			} else if hasAnchor && strings.HasSuffix(found, ".md") && !slices.Contains(docAnchors(t, found), anchor) {
				t.Errorf("%s: (%s) names no heading", file, target)
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found, want at least 100", links)
	}
}

// docFiles returns all documents in the repository.
func docFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (path == ".git" || path == "dist") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// docLinks returns the link targets within the repository that a file contains outside
// of code.
func docLinks(t *testing.T, file string) (targets []string) {
	t.Helper()
	text := docCode.ReplaceAllString(docText(t, file), "")
	for _, m := range docLink.FindAllStringSubmatch(text, -1) {
		if target := m[1] + m[2]; !strings.Contains(target, "://") && !strings.HasPrefix(target, "mailto:") {
			targets = append(targets, target)
		}
	}
	return targets
}

// docAnchors returns the anchors that GitHub generates for the headings of a file. It
// does not number duplicate headings, because no link refers to one.
func docAnchors(t *testing.T, file string) (anchors []string) {
	t.Helper()
	for _, m := range docHeading.FindAllStringSubmatch(docText(t, file), -1) {
		anchors = append(anchors, strings.ReplaceAll(docMark.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return anchors
}

// docText returns a file without its code blocks.
func docText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return docFence.ReplaceAllString(string(text), "")
}
