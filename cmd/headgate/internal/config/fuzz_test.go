package config_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// For any text, Parse returns a configuration that an engine accepts, or errors with
// positions. A printed configuration can be parsed and is printed equally again.
func FuzzParse(f *testing.F) {
	full, err := os.ReadFile(config.FullFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	_, all := invalidFiles(f)
	for _, c := range all {
		f.Add([]byte(c.text))
	}
	f.Add([]byte(bomb(4)))
	f.Add([]byte("admin: {addr: ':0'}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed, err := config.Parse("f.yaml", text)
		if err != nil {
			mustHavePositions(t, err, text)
			return
		}
		if _, err := (&config.Sources{Path: "f.yaml"}).Over(parsed); err != nil {
			// valid settings that cannot be combined
			mustHavePositions(t, err, text)
			return
		}
		first := printed(t, parsed)
		again, err := config.Parse("f.yaml", first)
		if err != nil {
			t.Fatalf("%s\nwas printed as\n%s\nwhich is invalid: %v", text, first, err)
		}
		if second := printed(t, again); !bytes.Equal(first, second) {
			t.Fatalf("%s\nwas printed as\n%s\nand then as\n%s", text, first, second)
		}
	})
}

func mustHavePositions(t *testing.T, err error, text []byte) {
	t.Helper()
	var all config.Errors
	if !errors.As(err, &all) || len(all) == 0 || len(all) > 101 {
		t.Fatalf("%q: got error %T of %d, want config.Errors, bounded", text, err, len(all))
	}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\u0085", "\n").Replace(string(text)), "\n")
	for _, e := range all {
		if e.Line < 0 || e.Line > len(lines)+1 || e.Line > 0 && e.Column < 1 || len(e.Message) > 2000 {
			t.Fatalf("%q: got %+v, want a position in the file and a message of at most 2000 bytes", text, e)
		}
	}
}

// printed returns the printed configuration without origins, which change.
func printed(t *testing.T, parsed *config.Parsed) []byte {
	t.Helper()
	sources := config.Sources{Path: "f.yaml"}
	c, err := sources.Over(parsed)
	if err != nil {
		t.Fatalf("a valid file: %v", err)
	}
	store := memstore.New(&memstore.Options{MaxEntries: 100})
	defer store.Close()
	if _, err := engine.New(store, c.Engine()); err != nil {
		t.Fatalf("the engine does not take a valid file: %v", err)
	}
	clear(c.Origins)
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() == "{}\n" || b.String() == "null\n" {
		return []byte("# nothing\n")
	}
	return b.Bytes()
}

// bomb returns a text in which each value repeats the previous one ten times.
func bomb(depth int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range depth {
		name, last := "a"+string(rune('1'+i)), "*a"+string(rune('0'+i))
		b.WriteString(name + ": &" + name + " [" + strings.Repeat(last+",", 10) + "]\n")
	}
	return b.String()
}
