package keytext_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/keytext"
)

func join(parts ...string) string {
	var key []byte
	for _, p := range parts {
		begin := len(key)
		key = keytext.Joined(append(key, p...), begin)
	}
	return string(key)
}

func TestJoinedReadsOneWay(t *testing.T) {
	t.Parallel()
	if got, want := join("alice", "/", ""), "5:alice1:/0:"; got != want {
		t.Errorf("got %q want %q", got, want)
	}
	if a, b := join("a:b", "c"), join("a", "b:c"); a == b {
		t.Errorf("different parts gave the same text %q", a)
	}
}

func TestChoicesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i := -1; i < 32; i++ {
		text := string(keytext.AppendChoice([]byte("before "), i))
		if other, taken := seen[text]; taken || !strings.HasPrefix(text, "before ") {
			t.Errorf("choice %d: got %q, which is also %d's", i, text, other)
		}
		seen[text] = i
	}
}

func TestBoundedKeepsShortKeysAndHashesLongOnes(t *testing.T) {
	t.Parallel()
	bounded := func(key string) string { return string(keytext.Bounded([]byte("k="+key), 2)) }
	longest := strings.Repeat("x", keytext.MaxBytes)
	for _, key := range []string{"", "alice", longest, longest + "x", "sha256:", "sha256", "SHA256:"} {
		if got, want := keytext.BoundedString(key), strings.TrimPrefix(bounded(key), "k="); got != want {
			t.Errorf("%.10q as a string: got %q want %q", key, got, want)
		}
	}
	for _, key := range []string{"", "alice", longest} {
		if got := bounded(key); got != "k="+key {
			t.Errorf("%.10q: got %q want it as it is", key, got)
		}
	}
	hashed := bounded(longest + "x")
	if len(hashed) != len("k=sha256:")+64 || hashed == bounded(longest+"y") {
		t.Errorf("a long key: got %q want its SHA-256", hashed)
	}
	if got := bounded(strings.TrimPrefix(hashed, "k=")); got == hashed {
		t.Errorf("the text of a hash passes for the key that was hashed: %q", got)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	room := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		dst := keytext.AppendChoice(room, 3)
		dst = keytext.Joined(append(dst, "alice"...), len(dst))
		_ = keytext.BoundedString("alice")
		_ = keytext.Bounded(append(dst, make([]byte, keytext.MaxBytes)...), 0)
	}); n > 0 {
		t.Errorf("got %v allocations want none", n)
	}
}

// FuzzJoinedReadsOneWay reads joined parts back.
func FuzzJoinedReadsOneWay(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("", "1:", "0:", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if same := a == c && b == d; same != (join(a, b) == join(c, d)) {
			t.Errorf("(%q, %q) and (%q, %q): got %q and %q", a, b, c, d, join(a, b), join(c, d))
		}
	})
}
