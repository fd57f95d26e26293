package docs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// The checks find what they are for.
func TestCheckBlock(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"../../examples/php/a.php":   "<?php\n// [snippet one]\n\tif (1) {\n\t\tf();\n\t}\n// [end one]\n",
		"../../examples/php/b.php":   "// [snippet one]\nnever ended\n",
		"../../examples/dart/a.dart": "main() {}\n",
	}
	readFile := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("no such file")
	}
	known := tests{
		functions: map[string]bool{"TestX": true}, scripts: map[string]bool{"x.txtar": true},
		folders: map[string]bool{"examples/php": true},
	}
	for _, c := range []struct{ name, page, want string }{
		{"no comment", "```sh\nls\n```", "needs one of these"},
		{"unknown comment", "<!-- ok -->\n```\nls\n```", "needs one of these"},
		{"comment not on the line before", "<!-- run: TestX -->\n\n```\nls\n```", "needs one of these"},
		{"test", "<!-- run: TestX/case -->\n```\nls\n```", ""},
		{"script", "<!-- run: x.txtar -->\n```\nls\n```", ""},
		{"two tests", "<!-- run: TestX, TestY -->\n```\nls\n```", `"TestY" is neither`},
		{"no test", "<!-- run: -->\n```\nls\n```", "names no test"},
		{"no reason", "<!-- not run: -->\n```\nls\n```", "no reason"},
		{"reason", "<!-- not run: a placeholder -->\n```\nls\n```", ""},
		{"region", "<!-- file: examples/php/a.php#one -->\n```php\nif (1) {\n\tf();\n}\n```", ""},
		{"indented", "- <!-- -->\n  <!-- file: examples/php/a.php#one -->\n  ```php\n  if (1) {\n  \tf();\n  }\n  ```", ""},
		{"other text", "<!-- file: examples/php/a.php#one -->\n```php\nif (2) {\n\tf();\n}\n```", "line 1"},
		{"fewer lines", "<!-- file: examples/php/a.php#one -->\n```php\nif (1) {\n```", "line 2"},
		{"no such region", "<!-- file: examples/php/a.php#two -->\n```php\n```", "no region"},
		{"region without end", "<!-- file: examples/php/b.php#one -->\n```php\nnever ended\n```", "no region"},
		{"no such file", "<!-- file: examples/php/c.php -->\n```php\n```", "cannot read"},
		{"whole file", "<!-- file: examples/dart/a.dart -->\n```dart\nmain() {}\n```", "no test executes"},
	} {
		blocks := parse("page.md", c.page).blocks
		if len(blocks) != 1 {
			t.Fatalf("%s: %d blocks, want 1", c.name, len(blocks))
		}
		_, got := checkBlock(blocks[0], known, readFile)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCheckLink(t *testing.T) {
	t.Parallel()
	a := parse("docs/a.md", "# One: `two`, 3\n## x\n## x\n[b](../b.md#über-uns)\n<img src=\"c.png\">\n```\n[no](link.md)\n# none\n```\n`[no](x)`")
	anchors := map[string]map[string]bool{"docs/a.md": anchorsOf(a), "b.md": {"über-uns": true}}
	there := func(name string) bool { return name == "docs/a.md" || name == "b.md" }
	if got := targetsOf(a); !slices.Equal(got, []string{"../b.md#über-uns", "c.png"}) {
		t.Errorf("targets: %q", got)
	}
	for target, want := range map[string]string{
		"../b.md#über-uns": "", "#one-two-3": "", "#x": "", "#x-1": "",
		"#x-2": "heading", "#none": "heading", "../b.md#x": "heading", "c.png": "does not exist",
	} {
		got := checkLink("docs/a.md", target, anchors, there)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	p := parse("a.md", strings.Join([]string{
		"# A heading that is not a sentence at all",
		"One two three four [five](six.md).",
		"Six `seven eight` e.g. nine ten",
		"eleven! Short one.",
		"- an item of a list with",
		"  a second line",
		"- <!-- a comment with several words in it --> another item of the list",
		"",
		"| a cell of more words | short |",
		"|---|---|",
		"| `x` | a cell with two. Sentences are counted one by one |",
		"```", "code is not prose, and is not counted here", "```",
	}, "\n"))
	want := []string{
		"One two three four five.", "a cell of more words", "another item of the list", "Six CODE e.g. nine ten eleven!",
		"Sentences are counted one by one", "an item of a list with a second line",
	}
	got := sentences(p)
	for _, s := range want {
		if !slices.Contains(got, s) {
			t.Errorf("%q is missing", s)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if p90 := percentile90([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}); p90 != "9" {
		t.Errorf("the 90th percentile of 1 to 10 is %s, want 9", p90)
	}
}
