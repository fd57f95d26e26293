package docs

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tests are the tests of the repository, which pages refer to.
type tests struct {
	functions map[string]bool // TestX, ExampleX, FuzzX
	scripts   map[string]bool // paths and base names of testscript files
	folders   map[string]bool // folders that contain a test file
	text      string          // of all test files
}

// Each code block is an exact copy of a tested file, or names the test that runs it, or
// gives the reason why nothing runs it.
func TestCodeBlocks(t *testing.T) {
	t.Parallel()
	known := findTests(t)
	findings := map[string][]string{}
	counts := map[string]map[string]int{}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			kind, problem := checkBlock(b, known, os.ReadFile)
			count(counts, b, kind)
			if problem != "" {
				findings[p.path] = append(findings[p.path], fmt.Sprintf(":%d: %s", b.line, problem))
			}
		}
	}
	report(t, "snippets", findings)
	logCounts(t, counts)
}

// checkBlock returns the kind of a block and what is wrong with it.
func checkBlock(b block, known tests, readFile func(string) ([]byte, error)) (kind, problem string) {
	kind, value, _ := strings.Cut(b.comment, ":")
	value = strings.TrimSpace(value)
	switch kind {
	case "file":
		return kind, checkCopy(b, value, known, readFile)
	case "run":
		return kind, checkRun(value, known)
	case "not run":
		if value == "" {
			return kind, "the comment has no reason; write <!-- not run: REASON -->"
		}
		return kind, ""
	}
	return "none", "a code block needs one of these comments on the line before: " +
		"<!-- file: PATH[#REGION] -->, <!-- run: TEST -->, <!-- not run: REASON -->"
}

// checkCopy compares a block with a file or with a region of it.
func checkCopy(b block, value string, known tests, readFile func(string) ([]byte, error)) string {
	name, region, _ := strings.Cut(value, "#")
	text, err := readFile(filepath.Join(root, name))
	if err != nil {
		return fmt.Sprintf("cannot read the file: %v", err)
	}
	want, ok := excerpt(string(text), region)
	switch {
	case !ok:
		return fmt.Sprintf("%s has no region between lines with [snippet %s] and [end %[2]s]", name, region)
	case want != b.text:
		return fmt.Sprintf("the block differs from %s\n%s", value, firstDifference(b.text, want))
	case !known.cover(name):
		return fmt.Sprintf("no test executes %s: none names it, and its folder has no tests", name)
	}
	return ""
}

func checkRun(value string, known tests) string {
	for name := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ' ' }) {
		function, _, _ := strings.Cut(name, "/")
		if !known.functions[function] && !known.scripts[name] {
			return fmt.Sprintf("%q is neither a Go test function nor a testscript file", name)
		}
	}
	if value == "" {
		return "the comment names no test; write <!-- run: TEST -->"
	}
	return ""
}

var (
	regionMark  = regexp.MustCompile(`\[(snippet|end) ([\w-]+)\]`)
	testPattern = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)
)

// excerpt returns a region of a text, without lines that mark regions, without the
// indentation that its lines share and without empty lines around it. If region is empty,
// it returns the whole text without the marks of its own regions.
func excerpt(text, region string) (string, bool) {
	var lines []string
	inside, found := region == "", region == ""
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		m := regionMark.FindStringSubmatch(line)
		switch {
		case m == nil && inside:
			lines = append(lines, line)
		case m != nil && m[2] == region:
			inside, found = m[1] == "snippet", found || m[1] == "end"
		}
	}
	if region == "" {
		return strings.Join(lines, ""), true
	}
	return strings.Trim(strings.Join(dedent(lines), ""), "\n") + "\n", found && !inside
}

// dedent removes the white space with which all lines begin that are not empty.
func dedent(lines []string) []string {
	shared := -1
	for _, line := range lines {
		if n := len(line) - len(strings.TrimLeft(line, " \t")); line != "\n" && (shared < 0 || n < shared) {
			shared = n
		}
	}
	for i, line := range lines {
		if line != "\n" {
			lines[i] = line[shared:]
		}
	}
	return lines
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("  line %d of the block: %q\n  want: %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("  the block has %d lines, want %d", len(g)-1, len(w)-1)
}

// cover reports whether a test names the file, or a test file is in its folder or in one
// above it, below the root's folders.
func (k tests) cover(name string) bool {
	for folder := path.Dir(name); strings.Contains(folder, "/"); folder = path.Dir(folder) {
		if k.folders[folder] {
			return true
		}
	}
	return k.folders[path.Dir(name)] || strings.Contains(k.text, path.Base(name))
}

// findTests reads all tests of the repository. Names of files in this package do not
// count: it does not execute them.
func findTests(t *testing.T) tests {
	t.Helper()
	k := tests{functions: map[string]bool{}, scripts: map[string]bool{}, folders: map[string]bool{}}
	var text strings.Builder
	walk(t, func(name string) {
		switch {
		case strings.HasSuffix(name, ".txtar"), strings.Contains(name, "/testdata/") && strings.HasSuffix(name, ".txt"):
			k.scripts[name], k.scripts[path.Base(name)] = true, true
		case strings.HasSuffix(name, "_test.go"):
			source := read(t, name)
			for _, m := range testPattern.FindAllStringSubmatch(source, -1) {
				k.functions[m[1]] = true
			}
			if !strings.HasPrefix(name, "internal/docs/") {
				k.folders[path.Dir(name)] = true
				text.WriteString(source)
			}
		}
	})
	k.text = text.String()
	return k
}

func count(counts map[string]map[string]int, b block, kind string) {
	lang := cmp.Or(b.lang, "(none)")
	if counts[lang] == nil {
		counts[lang] = map[string]int{}
	}
	counts[lang][kind]++
	counts[lang]["all"]++
}

func logCounts(t *testing.T, counts map[string]map[string]int) {
	t.Helper()
	total := map[string]int{}
	t.Logf("%-12s %5s %5s %5s %8s %5s", "language", "all", "file", "run", "not run", "none")
	for _, lang := range slices.Sorted(maps.Keys(counts)) {
		logRow(t, lang, counts[lang])
		for kind, n := range counts[lang] {
			total[kind] += n
		}
	}
	logRow(t, "total", total)
}

func logRow(t *testing.T, name string, n map[string]int) {
	t.Helper()
	t.Logf("%-12s %5d %5d %5d %8d %5d", name, n["all"], n["file"], n["run"], n["not run"], n["none"])
}
