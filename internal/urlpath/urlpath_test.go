package urlpath_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/urlpath"
)

func TestReadings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, strict, lenient string }{
		{"", "/", "/"},
		{"/", "/", "/"},
		{"*", "/*", "/*"},
		{"/a/b", "/a/b", "/a/b"},
		{"a//B/./c/../", "/a/b", "/a/b"},
		{"/../..", "/", "/"},
		{"/%61%2Fb", "/a\x00b", "/a/b"},
		{"/%zz/%4", "/%zz/%4", "/%zz/%4"},
		{"/a%2561", "/a%61", "/a%61"},
		{`/a\b%5c..`, `/a\b\..`, "/a"},
		{"/a;x/b;y=1", "/a;x/b;y=1", "/a/b"},
		{"/a#b/c", "/a#b/c", "/a"},
		{"/a%20/b. .%09/%00c", "/a /b. .\t/\x00c", "/a/b/c"},
		{"/a/.. /b", "/a/.. /b", "/b"},
		{"/a/.../b", "/a/.../b", "/a/b"},
		{"/.well-known/x.y", "/.well-known/x.y", "/.well-known/x.y"},
		{"/GR%C3%96%C3%9FE", "/grÖße", "/grÖße"},
	} {
		strict, lenient := urlpath.Readings(c.path)
		if strict != c.strict || lenient != c.lenient {
			t.Errorf("%q: got %q and %q want %q and %q", c.path, strict, lenient, c.strict, c.lenient)
		}
		if got := urlpath.Lenient(c.path); got != c.lenient {
			t.Errorf("Lenient(%q): got %q want %q", c.path, got, c.lenient)
		}
	}
}

func TestCanonicalPathAllocatesNothing(t *testing.T) {
	for _, path := range []string{"/", "/login", "/api/v1.2/items/7", "/.well-known/x"} {
		n := testing.AllocsPerRun(100, func() {
			urlpath.Readings(path)
			urlpath.Lenient(path)
		})
		if n != 0 {
			t.Errorf("%s: got %v allocations want 0", path, n)
		}
	}
}

// Each reading is a path with no empty segment, and spellings that every server treats
// alike do not change the lenient reading.
func FuzzReadings(f *testing.F) {
	for _, seed := range []string{"/a/b", "//A/%2e%2e/b;c", "/a%20/.../ .", `/a\..\b#c`, "/%00", "/..;/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		strict, lenient := urlpath.Readings(path)
		for _, reading := range []string{strict, lenient} {
			if reading == "" || reading[0] != '/' || strings.Contains(reading, "//") || len(reading) > 1 && strings.HasSuffix(reading, "/") {
				t.Fatalf("%q: got the reading %q", path, reading)
			}
		}
		if got := urlpath.Lenient(path); got != lenient {
			t.Fatalf("%q: Lenient is %q, and the second reading %q", path, got, lenient)
		}
		// Escaping the bytes of a path without escapes changes nothing.
		var escaped strings.Builder
		for i := range len(path) {
			if c := path[i]; c == '/' || c == '#' || c == '%' {
				escaped.WriteByte(c)
			} else {
				escaped.WriteString("%" + string("0123456789abcdef"[c>>4]) + string("0123456789ABCDEF"[c&15]))
			}
		}
		if got := urlpath.Lenient(escaped.String()); !strings.Contains(path, "%") && got != lenient {
			t.Fatalf("%q: got %q, escaped %q", path, lenient, got)
		}
		if got := urlpath.Lenient("/x/../" + path + "/."); !strings.ContainsAny(path, "#") && got != lenient && !climbs(path) {
			t.Fatalf("%q: got %q, with other segments %q", path, lenient, got)
		}
	})
}

// climbs reports whether path may have more “..” than segments before it.
func climbs(path string) bool { return strings.Contains(path, "..") || strings.Contains(path, "%2") }
