package replay

import (
	"strings"
	"unicode/utf8"
)

// textColumns is the maximum width of the text report, except for unreadable lines.
const textColumns = 80

// minNameColumns is the room that a table keeps for the names of its rows.
const minNameColumns = 22

// textTable is a table of numbers. Each row has a name.
type textTable struct {
	header []string // above each column of cells; a line break begins a new line
	rows   []textRow
}

type textRow struct {
	name  string
	cells []string
}

// add adds a row. Missing cells are empty; cells without a header are left out.
func (t *textTable) add(name string, cells ...string) {
	row := textRow{name, make([]string, len(t.header))}
	copy(row.cells, cells)
	t.rows = append(t.rows, row)
}

// write writes the table after an empty line, or nothing if it has no columns. Columns
// that do not fit into the width are written as further tables with the same names. A
// name that does not fit next to the cells has a line of its own.
func (t *textTable) write(b *strings.Builder) {
	for first := 0; first < len(t.header); {
		next := first + t.fitting(first)
		b.WriteString("\n")
		t.writeColumns(b, first, next)
		first = next
	}
}

// fitting returns how many columns, beginning with first, fit next to the names: at
// least one.
func (t *textTable) fitting(first int) (n int) {
	room := textColumns - 2 - min(t.nameWidth(), minNameColumns)
	for first+n < len(t.header) {
		room -= 2 + t.width(first+n)
		if room < 0 {
			break
		}
		n++
	}
	return max(1, n)
}

func (t *textTable) nameWidth() (width int) {
	for _, row := range t.rows {
		width = max(width, utf8.RuneCountInString(row.name))
	}
	return width
}

// width returns the width of a column of cells.
func (t *textTable) width(column int) (width int) {
	for _, line := range strings.Split(t.header[column], "\n") {
		width = max(width, utf8.RuneCountInString(line))
	}
	for _, row := range t.rows {
		width = max(width, utf8.RuneCountInString(row.cells[column]))
	}
	return width
}

// writeColumns writes the columns from first up to next.
func (t *textTable) writeColumns(b *strings.Builder, first, next int) {
	widths, names := make([]int, len(t.header)), textColumns-2
	for i := first; i < next; i++ {
		widths[i] = t.width(i)
		names -= 2 + widths[i]
	}
	names = min(names, t.nameWidth())
	writeRow := func(row textRow) {
		if utf8.RuneCountInString(row.name) > names {
			b.WriteString("  " + shorten(row.name, textColumns-2) + "\n")
			row.name = ""
		}
		line := "  " + pad(row.name, -names)
		for i := first; i < next; i++ {
			line += "  " + pad(row.cells[i], widths[i])
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	for _, line := range t.headerLines(first, next) {
		writeRow(line)
	}
	for _, row := range t.rows {
		writeRow(row)
	}
}

// headerLines returns the lines of the header. Columns with fewer lines than others
// begin with empty lines.
func (t *textTable) headerLines(first, next int) []textRow {
	height := 0
	for _, header := range t.header[first:next] {
		height = max(height, 1+strings.Count(header, "\n"))
	}
	lines := make([]textRow, height)
	for i := range lines {
		lines[i].cells = make([]string, len(t.header))
	}
	for column := first; column < next; column++ {
		words := strings.Split(t.header[column], "\n")
		for i, word := range words {
			lines[height-len(words)+i].cells[column] = word
		}
	}
	return lines
}

// pad fills text with spaces up to the width: on its left side, or with a negative width
// on its right side.
func pad(text string, width int) string {
	fill := strings.Repeat(" ", max(0, max(width, -width)-utf8.RuneCountInString(text)))
	if width < 0 {
		return text + fill
	}
	return fill + text
}

// shorten returns text with at most width characters. It replaces the middle of a
// longer text with “…”.
func shorten(text string, width int) string {
	chars := []rune(text)
	if len(chars) <= width {
		return text
	}
	head := width / 2
	return string(chars[:head]) + "…" + string(chars[len(chars)-(width-1-head):])
}

// writeWrapped writes text after prefix and wraps it at spaces. Further lines are
// indented by the width of prefix. A word that is longer than a line is shortened, and
// “%” stays on the line of its number.
func writeWrapped(b *strings.Builder, prefix, text string) {
	indent := utf8.RuneCountInString(prefix)
	line, empty := prefix, true
	for _, word := range strings.Fields(strings.ReplaceAll(text, " %", "\x00%")) {
		word = shorten(strings.ReplaceAll(word, "\x00", " "), textColumns-indent)
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textColumns {
			b.WriteString(line + "\n")
			line, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
