package headgate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate"
)

// docs/reference/limits.md shows how limits are read and printed, and the errors.
func TestLimitsPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	printed := regexp.MustCompile("(?m)^\\| `([^`]+/[^`]*|[^`]+ per [^`]+|[0-9]+ concurrent)` \\| `([^`]+)` \\|").FindAllStringSubmatch(page, -1)
	if len(printed) < 8 {
		t.Fatalf("the page has %d printed limits, want at least 8", len(printed))
	}
	for _, row := range printed {
		if l, err := headgate.ParseLimit(row[1]); err != nil || l.String() != row[2] {
			t.Errorf("%s: got %q, error %v want %q", row[1], l.String(), err, row[2])
		}
	}

	_, table, _ := strings.Cut(page, "| text | error |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cells := strings.SplitN(strings.Trim(row, "|\n "), " | ", 2)
		_, err := headgate.ParseLimit(strings.Trim(cells[0], "`"))
		if err == nil || !strings.Contains(err.Error(), cells[1]) {
			t.Errorf("%s: got error %v want %q", cells[0], err, cells[1])
		}
	}

	_, units, _ := strings.Cut(page, "| unit | words |\n|---|---|\n")
	units, _, _ = strings.Cut(units, "\n\n")
	for row := range strings.Lines(units) {
		words := regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row, -1)
		for i, word := range words {
			texts := []string{"7/2000" + word[1], "7 per 2000 " + word[1]}
			if i > 0 {
				texts = append(texts, "7/2000"+strings.ToUpper(word[1]))
			}
			for _, text := range texts {
				if strings.HasPrefix(words[0][1], "h") || strings.HasPrefix(words[0][1], "d") || strings.HasPrefix(words[0][1], "w") {
					text = strings.Replace(text, "2000", "2", 1)
				}
				want := headgate.MustParseLimit(strings.Replace(text[:len(text)-len(word[1])], " per ", "/", 1) + words[0][1])
				if l, err := headgate.ParseLimit(text); err != nil || l != want {
					t.Errorf("%s: got %v, error %v want %v", text, l, err, want)
				}
			}
		}
	}

	_, example, _ := strings.Cut(page, "```\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := headgate.ParseLimit("10/1h30m"); err == nil || err.Error() != strings.TrimSuffix(example, "\n") {
		t.Errorf("the page shows\n%s\nand the error is\n%v", example, err)
	}
}
