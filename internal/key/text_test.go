package key_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/key"
)

func join(parts ...string) string {
	var text []byte
	for i, p := range parts {
		if i > 0 {
			text = append(text, '+')
		}
		text = key.AppendEscaped(text, p)
	}
	return string(text)
}

func TestAppendEscaped(t *testing.T) {
	t.Parallel()
	if got, want := join("alice", "/", "", `a+b\`), `alice+/++a\+b\\`; got != want {
		t.Errorf("got %q want %q", got, want)
	}
	if a, b := join("a+b", "c"), join("a", "b+c"); a == b {
		t.Errorf("different parts have the same text %q", a)
	}
}

// A text of special bytes only must not take quadratic time. With quadratic time this
// test would take hours.
func TestAppendEscapedIsLinear(t *testing.T) {
	t.Parallel()
	const length = 16 << 20
	got := key.AppendEscaped(nil, strings.Repeat("+", length))
	if len(got) != 2*length || strings.Count(string(got), `\+`) != length {
		t.Errorf("%d special bytes: got %d bytes want %d", length, len(got), 2*length)
	}
}

func TestLongKeysAreHashed(t *testing.T) {
	t.Parallel()
	bound := func(text string) string { return string(key.Bound([]byte("k="+text), 2)) }
	longest := strings.Repeat("x", key.MaxBytes)
	for _, text := range []string{"", "alice", longest, longest + "x", "sha256=", "sha256", "sha256:", "SHA256="} {
		if got, want := key.BoundString(text), strings.TrimPrefix(bound(text), "k="); got != want {
			t.Errorf("%.10q as a string: got %q want %q", text, got, want)
		}
	}
	for _, text := range []string{"", "alice", longest, "sha256", "sha256:00"} {
		if got := bound(text); got != "k="+text {
			t.Errorf("%.10q: got %q want it unchanged", text, got)
		}
	}
	hashed := bound(longest + "x")
	if len(hashed) != len("k=sha256=")+64 || hashed == bound(longest+"y") {
		t.Errorf("a long key: got %q want its SHA-256", hashed)
	}
	if got := bound(strings.TrimPrefix(hashed, "k=")); got == hashed {
		t.Errorf("the text of a hash is the key of the text that was hashed: %q", got)
	}
}

func TestPrimitivesDoNotAllocate(t *testing.T) {
	room := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		dst := key.AppendEscaped(room, `alice+bob\`)
		_ = key.BoundString("alice")
		_ = key.Bound(append(dst, make([]byte, key.MaxBytes)...), 0)
	}); n > 0 {
		t.Errorf("got %v allocations want none", n)
	}
}

func FuzzAppendEscaped(f *testing.F) {
	f.Add("a+b", "c", "a", "b+c")
	f.Add("", `+`, `\`, "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if same := a == c && b == d; same != (join(a, b) == join(c, d)) {
			t.Errorf("(%q, %q) and (%q, %q): got %q and %q", a, b, c, d, join(a, b), join(c, d))
		}
	})
}
