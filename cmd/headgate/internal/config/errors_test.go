package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

var update = flag.Bool("update", false, "write testdata/errors.txt")

// invalidFile is a case of testdata/errors.txt.
type invalidFile struct{ name, text, errors string }

func invalidFiles(t testing.TB) (head string, all []invalidFile) {
	t.Helper()
	text, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n#### ")
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		file, said, ok := strings.Cut("\n"+rest, "\n==\n")
		if !ok {
			t.Fatalf("case %q has no ==", name)
		}
		if file = strings.TrimPrefix(file, "\n"); file != "" {
			file += "\n"
		}
		all = append(all, invalidFile{name, file, strings.TrimSpace(said)})
	}
	return parts[0], all
}

// lists replaces the lists of algorithms in errors by placeholders, as in
// testdata/errors.txt.
var lists = strings.NewReplacer(
	strings.Join(algo.Names(), ", "), "{algorithms}",
	"queue requires "+algo.NamesWhere(headgate.Algorithm.Queues), "queue requires {with a queue}",
	"burst requires "+algo.NamesWhere(func(a headgate.Algorithm) bool { return !a.Windowed() }), "burst requires {with a burst}",
)

func TestErrors(t *testing.T) {
	t.Parallel()
	head, all := invalidFiles(t)
	if len(all) < 60 {
		t.Fatalf("%d cases, want at least 60", len(all))
	}
	var b bytes.Buffer
	b.WriteString(head)
	for _, c := range all {
		_, err := config.Parse("headgate.yaml", []byte(c.text))
		if err == nil || !errors.Is(err, config.ErrInvalid) {
			t.Errorf("%s: got error %v, want ErrInvalid", c.name, err)
			continue
		}
		got := lists.Replace(err.Error())
		fmt.Fprintf(&b, "\n#### %s\n%s==\n%s\n", c.name, c.text, got)
		if got != c.errors && !*update {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.errors)
		}
		if strings.Contains(err.Error(), "secret") && !strings.Contains(c.text, "!secret") {
			t.Errorf("%s: the error contains a password: %v", c.name, err)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/errors.txt", b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
