package urlpath_test

import (
	"math/rand/v2"
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
		readings := urlpath.AppendReadings(nil, c.path)
		if readings[0] != c.strict || readings[min(1, len(readings)-1)] != c.lenient {
			t.Errorf("%q: got %q want %q and %q first", c.path, readings, c.strict, c.lenient)
		}
		if got := urlpath.Key(c.path); got != c.lenient && got != urlpath.Ambiguous {
			t.Errorf("Key(%q): got %q want %q", c.path, got, c.lenient)
		}
	}
}

func TestCanonicalPathAllocatesNothing(t *testing.T) {
	for _, path := range []string{"/", "/login", "/api/v1.2/items/7", "/.well-known/x"} {
		n := testing.AllocsPerRun(100, func() {
			urlpath.AppendReadings(make([]string, 0, 2), path)
			urlpath.Key(path)
		})
		if n != 0 {
			t.Errorf("%s: got %v allocations want 0", path, n)
		}
	}
}

// A path that some program serves as another path has the key of that path, or the text
// that all ambiguous paths share. Ordinary paths have keys of their own.
func TestKeys(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/q1%2fb/../login":          urlpath.Ambiguous,
		"/q1%5Cb/../login":          urlpath.Ambiguous,
		`/q1\b/../login`:            urlpath.Ambiguous,
		"/login;x=%2f1":             urlpath.Ambiguous,
		"/login;x=%5c1":             urlpath.Ambiguous,
		`/login;x\1`:                urlpath.Ambiguous,
		"/login%3bx%2f1":            urlpath.Ambiguous,
		"/x1#/../login":             urlpath.Ambiguous,
		`/q1/..%2fq1\b/../login`:    urlpath.Ambiguous,
		"/x/..;a/login":             urlpath.Ambiguous,
		"/x/../login":               "/login",
		"/a%20b/%2e%2e/login":       "/login",
		"/login;x=1":                "/login",
		"/login;x=/1":               "/login/1",
		"/login#1":                  urlpath.Ambiguous,
		"/projects/group%2Fproject": "/projects/group/project",
	} {
		if got := urlpath.Key(path); got != want {
			t.Errorf("%s: got %q want %q", path, got, want)
		}
	}
}

// tokens are the pieces from which FuzzKeys builds paths.
var tokens = []string{
	"/", "/", "a", "login", "..", ".", "%2f", "%2F", "%5c", `\`, ";", "%3b", "#", "%20", "/../", "%2e", "A", "/..", "%2f..",
}

// Each reading of a path, written as a path, has the key of the path: all paths that a
// program serves as one path share a key or have the key [urlpath.Ambiguous].
func FuzzKeys(f *testing.F) {
	for seed := range 3000 {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		pieces := make([]byte, 1+random.IntN(12))
		for i := range pieces {
			pieces[i] = byte(random.IntN(len(tokens)))
		}
		f.Add(pieces)
	}
	f.Fuzz(func(t *testing.T, pieces []byte) {
		path := "/"
		for _, piece := range pieces {
			path += tokens[int(piece)%len(tokens)]
		}
		key := urlpath.Key(path)
		readings := urlpath.AppendReadings(nil, path)
		if len(readings) > 48 {
			t.Fatalf("%q: got %d readings", path, len(readings))
		}
		for _, reading := range readings {
			if got := urlpath.Key(strings.ReplaceAll(reading, "\x00", "%2f")); key != urlpath.Ambiguous && got != key && got != urlpath.Ambiguous {
				t.Errorf("%q is read as %q: got the key %q want %q", path, reading, got, key)
			}
		}
	})
}

// Each reading is a path with no empty segment, and spellings that every server treats
// alike do not change the key.
func FuzzReadings(f *testing.F) {
	for _, seed := range []string{"/a/b", "//A/%2e%2e/b;c", "/a%20/.../ .", `/a\..\b#c`, "/%00", "/..;/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		key := urlpath.Key(path)
		for _, reading := range urlpath.AppendReadings(nil, path) {
			if reading == "" || reading[0] != '/' || strings.Contains(reading, "//") || len(reading) > 1 && strings.HasSuffix(reading, "/") {
				t.Fatalf("%q: got the reading %q", path, reading)
			}
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
		if got := urlpath.Key(escaped.String()); !strings.Contains(path, "%") && got != key {
			t.Fatalf("%q: got %q, escaped %q", path, key, got)
		}
		if got := urlpath.Key("/x/../" + path + "/."); got != key && got != urlpath.Ambiguous && !strings.Contains(path, "#") && !climbs(path) {
			t.Fatalf("%q: got %q, with other segments %q", path, key, got)
		}
	})
}

// climbs reports whether path may have more “..” than segments before it.
func climbs(path string) bool { return strings.Contains(path, "..") || strings.Contains(path, "%2") }
