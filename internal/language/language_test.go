//go:build !race

package language

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The widths, in columns. A tab counts as 4.
const (
	maxComment         = 90
	maxTrailingComment = 120 // the whole line
	tabWidth           = 4
)

var (
	root = flag.String("root", "../..", "the repository's root")
	only = flag.String("only", "", "files or folders to check, separated by commas; empty: all")
)

// excluded are files and folders whose text is not ours, or quotes other texts.
var excluded = []string{
	".git", "dist", "LICENSE", "CHANGELOG.md", "internal/language", "bench/results", "go.work.sum",
	"cmd/headgate/internal/envoyconfig/testdata", "replay/testdata", "conformance/testdata", "replay/assets",
	"examples/node/node_modules", "tools/site/node_modules",
}

// finding is a place with a wording to change.
type finding struct {
	place, text, use string
}

// TestBannedPhrases checks comments, strings with spaces in code, and documents.
func TestBannedPhrases(t *testing.T) {
	for _, path := range files(t) {
		for _, f := range check(t, path) {
			t.Errorf("%s: %s: %s", f.place, f.text, f.use)
		}
	}
}

// files returns the paths of all files to check, from the root.
func files(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(*root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(*root, path)
		switch {
		case err != nil:
			return err
		case isExcluded(name) && d.IsDir():
			return filepath.SkipDir
		case !d.IsDir() && !isExcluded(name) && isSelected(name):
			paths = append(paths, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func isExcluded(name string) bool {
	for _, e := range excluded {
		if name == e || strings.HasPrefix(name, e+"/") {
			return true
		}
	}
	return false
}

func isSelected(name string) bool {
	if *only == "" {
		return true
	}
	for _, path := range strings.Split(*only, ",") {
		path = strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/...")
		if path == "." || name == path || strings.HasPrefix(name, strings.TrimSuffix(path, "/")+"/") {
			return true
		}
	}
	return false
}

// check returns the findings in one file, by the kind of the file.
func check(t *testing.T, name string) []finding {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(*root, name))
	if err != nil {
		t.Fatal(err)
	}
	switch ext := filepath.Ext(name); {
	case ext == ".go" || strings.HasSuffix(name, ".go.txt"):
		return checkGo(name, text)
	case ext == ".md":
		return checkLines(name, withoutCode(string(text)), 0)
	case ext == ".lua":
		return checkLines(name, lineComments(string(text), "--"), maxComment)
	case ext == ".js":
		return checkLines(name, lineComments(string(text), "//"), 0)
	case ext == ".html" || ext == ".json" && strings.Contains(name, "openapi"):
		return checkLines(name, string(text), 0)
	case ext == ".yaml" || ext == ".yml" || name == "Makefile" || strings.HasPrefix(name, "scripts/") ||
		strings.HasPrefix(string(text), "#!"):
		return checkLines(name, lineComments(string(text), "#"), 0)
	}
	return nil
}

// checkGo checks the comments of a file and, unless it is a test, its string literals.
func checkGo(name string, src []byte) (found []finding) {
	set := token.NewFileSet()
	file := set.AddFile(name, set.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	lines := strings.Split(string(src), "\n")
	isTest := strings.HasSuffix(name, "_test.go")
	inTag := tags(name, src)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return found
		}
		place := file.Position(pos)
		switch tok {
		case token.COMMENT:
			if !strings.HasPrefix(lit, "//go:") && !strings.HasPrefix(lit, "//nolint") {
				found = append(found, checkText(name, place.Line, lit)...)
				found = append(found, checkWidth(name, place, lit, lines[place.Line-1])...)
			}
		case token.STRING:
			if text, err := strconv.Unquote(lit); err == nil && !isTest && !inTag[place.Offset] && strings.Contains(text, " ") {
				found = append(found, checkText(name, place.Line, text)...)
			}
		}
	}
}

// tags returns the offsets of struct tags.
func tags(name string, src []byte) map[int]bool {
	offsets := map[int]bool{}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return offsets
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && f.Tag != nil {
			offsets[set.Position(f.Tag.Pos()).Offset] = true
		}
		return true
	})
	return offsets
}

// checkWidth checks a comment that begins at place in line.
func checkWidth(name string, place token.Position, comment, line string) []finding {
	limit := maxComment
	if strings.TrimSpace(line[:place.Column-1]) != "" {
		limit = maxTrailingComment
	}
	if strings.Contains(comment, "://") || strings.HasPrefix(comment, "/*") || !strings.Contains(strings.TrimPrefix(comment, "// "), " ") {
		return nil
	}
	if n := columns(line); n > limit {
		return []finding{{name + ":" + strconv.Itoa(place.Line), strconv.Itoa(n) + " columns", "at most " + strconv.Itoa(limit)}}
	}
	return nil
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}

// checkLines checks each line of a text. width is the longest line; 0 means any.
func checkLines(name, text string, width int) (found []finding) {
	for i, line := range strings.Split(text, "\n") {
		found = append(found, checkText(name, i+1, line)...)
		if n := columns(line); width > 0 && n > width {
			found = append(found, finding{name + ":" + strconv.Itoa(i+1), strconv.Itoa(n) + " columns", "at most " + strconv.Itoa(width)})
		}
	}
	return found
}

// checkText looks for banned phrases. Phrases that go over the end of a line are found, too,
// in comments that the scanner gives as one.
func checkText(name string, line int, text string) (found []finding) {
	for _, b := range banned {
		if m := b.match.FindString(text); m != "" {
			found = append(found, finding{name + ":" + strconv.Itoa(line), strconv.Quote(m), b.use})
		}
	}
	return found
}

var (
	codeBlock = regexp.MustCompile("(?s)\n *```.*?\n *```")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	notBreak  = regexp.MustCompile(`[^\n]`)
)

// withoutCode replaces code in a Markdown text by nothing, and keeps its lines.
func withoutCode(text string) string {
	text = codeBlock.ReplaceAllStringFunc(text, func(s string) string { return notBreak.ReplaceAllString(s, "") })
	return codeSpan.ReplaceAllString(text, "``")
}

// lineComments keeps only the comments that begin with marker, and the number of lines.
func lineComments(text, marker string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if at := strings.Index(line, marker); at >= 0 && strings.TrimSpace(line[:at]) == "" {
			continue
		}
		lines[i] = ""
	}
	return strings.Join(lines, "\n")
}
