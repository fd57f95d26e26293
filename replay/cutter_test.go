package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// cutAll returns the lines that a cutter makes of src, and the reasons for unreadable
// lines.
func cutAll(t *testing.T, src io.Reader) (lines []string, spoilt []string, err error) {
	t.Helper()
	c, p := cutter{src: src}, newPiece()
	for c.cut(p) {
		if p.spoilt != "" {
			spoilt = append(spoilt, p.spoilt)
			continue
		}
		for line := range bytes.Lines(p.text) {
			lines = append(lines, string(withoutEnd(line)))
		}
	}
	return lines, spoilt, endOf(c.err)
}

func TestCutter(t *testing.T) {
	long := strings.Repeat("x", pieceSize)
	fits := strings.Repeat("y", pieceSize-1)
	broken := errors.New("broken")
	for _, tt := range []struct {
		name   string
		src    io.Reader
		lines  []string
		spoilt []string
		err    error
	}{
		{name: "empty", src: strings.NewReader("")},
		{name: "lines", src: strings.NewReader("a\n\nb\r\n"), lines: []string{"a", "", "b"}},
		{name: "no end at the end", src: strings.NewReader("a\nb"), lines: []string{"a", "b"}},
		{name: "a byte at a time", src: iotest.OneByteReader(strings.NewReader("a\nbc\nd")), lines: []string{"a", "bc", "d"}},
		{name: "the end with the data", src: iotest.DataErrReader(strings.NewReader("a\nb")), lines: []string{"a", "b"}},
		{name: "broken between lines", src: io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(broken)), lines: []string{"a"}, err: broken},
		{
			name: "broken in a line", src: io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)),
			lines: []string{"a"}, spoilt: []string{badCutOff}, err: broken,
		},
		{name: "a line that just fits", src: strings.NewReader("a\n" + fits + "\nb\n"), lines: []string{"a", fits, "b"}},
		{name: "a line too long", src: strings.NewReader("a\n" + long + "\nb\n"), lines: []string{"a", "b"}, spoilt: []string{badTooLong}},
		{name: "much too long", src: strings.NewReader("a\n" + long + long + long + "z\nb"), lines: []string{"a", "b"}, spoilt: []string{badTooLong}},
		{name: "too long at the end", src: strings.NewReader("a\n" + long + long), lines: []string{"a"}, spoilt: []string{badTooLong}},
		{
			name: "two too long", src: strings.NewReader(long + "\n" + long + "x\nb\n"), lines: []string{"b"},
			spoilt: []string{badTooLong, badTooLong},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, spoilt, err := cutAll(t, tt.src)
			if !equal(lines, tt.lines) || !equal(spoilt, tt.spoilt) || !errors.Is(err, tt.err) {
				t.Errorf("got %.60q, %q, %v; want %.60q, %q, %v", lines, spoilt, err, tt.lines, tt.spoilt, tt.err)
			}
		})
	}
}

func equal(a, b []string) bool {
	return strings.Join(a, "\n") == strings.Join(b, "\n") && len(a) == len(b)
}

// TestCutterOverManyPieces: every line arrives once and complete, wherever pieces end.
func TestCutterOverManyPieces(t *testing.T) {
	var want []string
	for i := range 40_000 {
		want = append(want, strings.Repeat("x", i%257)+"!")
	}
	lines, spoilt, err := cutAll(t, iotest.HalfReader(strings.NewReader(strings.Join(want, "\n"))))
	if err != nil || len(spoilt) > 0 || !equal(lines, want) {
		t.Errorf("got %d lines, %d spoilt, %v; want %d lines as they were", len(lines), len(spoilt), err, len(want))
	}
}

// zipped returns a gzip member that contains text.
func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnzipped(t *testing.T) {
	member := zipped(t, "hello\n")
	damaged := bytes.Clone(member)
	damaged[len(damaged)-8]++
	mark := "\xef\xbb\xbf"
	for _, tt := range []struct {
		name   string
		bytes  []byte
		text   string
		zipped bool
		err    string
	}{
		{name: "plain", bytes: []byte("hello\n"), text: "hello\n"},
		{name: "one byte", bytes: []byte("\x1f"), text: "\x1f"},
		{name: "byte order mark", bytes: []byte(mark + "hello"), text: "hello"},
		{name: "only the first mark", bytes: []byte(mark + mark), text: mark},
		{name: "gzip", bytes: member, text: "hello\n", zipped: true},
		{name: "gzipped mark", bytes: zipped(t, mark+"hello"), text: "hello", zipped: true},
		{name: "two members", bytes: append(bytes.Clone(member), member...), text: "hello\nhello\n", zipped: true},
		{name: "cut in the header", bytes: member[:5], zipped: true, err: "truncated"},
		{name: "cut in the data", bytes: member[:len(member)-9], text: "hello\n", zipped: true, err: "truncated"},
		{name: "cut in the second member", bytes: append(bytes.Clone(member), member[:4]...), text: "hello\n", zipped: true, err: "truncated"},
		{name: "wrong checksum", bytes: damaged, text: "hello\n", zipped: true, err: "damaged"},
		{name: "junk behind", bytes: append(bytes.Clone(member), "some more junk"...), text: "hello\n", zipped: true, err: "after the gzip data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var text []byte
			r, zipped, err := unzipped(bytes.NewReader(tt.bytes))
			if err == nil {
				text, err = io.ReadAll(r)
			}
			if string(text) != tt.text && tt.name != "cut in the data" || zipped != tt.zipped {
				t.Errorf("got %q, gzip %v; want %q, %v", text, zipped, tt.text, tt.zipped)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got error %v, want one with %q", err, tt.err)
			}
		})
	}
}
