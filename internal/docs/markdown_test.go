package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the root of the repository.
const root = "../.."

// page is a Markdown file.
type page struct {
	path   string // from the root, with slashes
	text   string
	prose  []string // the lines; those of code blocks are empty
	blocks []block
}

// block is a fenced code block.
type block struct {
	line    int    // of the opening fence, from 1
	lang    string // the first word after the fence
	comment string // the HTML comment on the line before, without its marks
	text    string // ends with a newline, unless it is empty; without the fence's indentation
}

var htmlComment = regexp.MustCompile(`^<!--\s*(.*?)\s*-->$`)

// parse splits a page into prose and code blocks.
func parse(path, text string) page {
	p := page{path: path, text: text}
	lines := strings.Split(text, "\n")
	p.prose = make([]string, len(lines))
	for i := 0; i < len(lines); i++ {
		mark := fenceOf(lines[i])
		if mark == "" {
			p.prose[i] = lines[i]
			continue
		}
		b := openBlock(lines, i, mark)
		for i++; i < len(lines) && !closes(lines[i], mark); i++ {
			b.text += unindent(lines[i], indentOf(lines[b.line-1])) + "\n"
		}
		p.blocks = append(p.blocks, b)
	}
	return p
}

// openBlock returns the block, still empty, whose fence is in line i.
func openBlock(lines []string, i int, mark string) block {
	b := block{line: i + 1}
	if words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(lines[i]), mark)); len(words) > 0 {
		b.lang = words[0]
	}
	if i > 0 {
		if m := htmlComment.FindStringSubmatch(strings.TrimSpace(lines[i-1])); m != nil {
			b.comment = m[1]
		}
	}
	return b
}

// fenceOf returns the backticks or tildes that open a code block in a line.
func fenceOf(line string) string {
	line = strings.TrimSpace(line)
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 && !strings.Contains(line[n:], "`") {
			return line[:n]
		}
	}
	return ""
}

// closes reports whether a line ends a code block.
func closes(line, mark string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, mark) && strings.Trim(line, mark[:1]) == ""
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// unindent removes up to n spaces from the beginning of a line.
func unindent(line string, n int) string { return line[min(n, indentOf(line)):] }

// foreign are folders whose files are not part of the repository.
var foreign = map[string]bool{".git": true, "dist": true, "node_modules": true, "vendor": true}

// pages returns all Markdown pages of the repository, except in folders named testdata.
func pages(t *testing.T) (found []page) {
	t.Helper()
	walk(t, func(path string) {
		if strings.HasSuffix(path, ".md") && !strings.Contains(path, "/testdata/") {
			found = append(found, parse(path, read(t, path)))
		}
	})
	if len(found) < 50 {
		t.Fatalf("found %d pages, want at least 50", len(found))
	}
	return found
}

// walk calls f with each file of the repository.
func walk(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if foreign[entry.Name()] {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		f(filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// report fails the test for each finding on a page that is not in the list of the check,
// and for each listed page without a finding.
func report(t *testing.T, check string, findings map[string][]string) {
	t.Helper()
	list := pending[check]
	if len(list.pages) > list.max {
		t.Errorf("pending[%q] has %d pages; at most %d: a new page passes all checks", check, len(list.pages), list.max)
	}
	listed := map[string]bool{}
	for _, path := range list.pages {
		listed[path] = true
		if len(findings[path]) == 0 {
			t.Errorf("%s passes or does not exist: remove it from pending[%q] in pending_test.go", path, check)
		}
	}
	for path, texts := range findings {
		for _, text := range texts {
			if !listed[path] {
				t.Errorf("%s%s", path, text)
			}
		}
	}
}
