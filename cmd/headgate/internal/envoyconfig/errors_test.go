package envoyconfig_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// sections splits a file into headers, “-- header --”, and the texts that follow them.
func sections(t testing.TB, path string) (headers, contents []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.SplitAfter(string(text), "\n") {
		if inner, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok {
			headers = append(headers, strings.TrimSuffix(strings.TrimSuffix(inner, "--"), " "))
			contents = append(contents, "")
		} else if len(contents) > 0 {
			contents[len(contents)-1] += line
		}
	}
	return headers, contents
}

func parse(name, content string) (*envoyconfig.Config, error) {
	return envoyconfig.Parse([]envoyconfig.File{{Name: name, Content: []byte(content)}}, nil)
}

func mustParse(t testing.TB, content string) *envoyconfig.Config {
	t.Helper()
	c, err := parse("test.yaml", content)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestErrors(t *testing.T) {
	t.Parallel()
	headers, contents := sections(t, "testdata/errors.txt")
	for i, header := range headers {
		name, want, _ := strings.Cut(header, " => ")
		want = strings.ReplaceAll(want, `\n`, "\n")
		c, err := parse(name, contents[i])
		if c != nil || !errors.Is(err, envoyconfig.ErrInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, want)
		}
	}
	if len(headers) < 50 {
		t.Errorf("%d cases, want at least 50", len(headers))
	}
}

func TestErrorPosition(t *testing.T) {
	t.Parallel()
	_, err := parse("a.yaml", "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: day\n      foo: 1\n")
	if wrong := envoyconfig.Errors(nil); !errors.As(err, &wrong) || wrong[0].Place() != "a.yaml:6:7" {
		t.Errorf("got %v, want position a.yaml:6:7", err)
	}
}

// Each invalid file is reported, and one invalid file invalidates the configuration.
func TestParseSeveralFiles(t *testing.T) {
	t.Parallel()
	good := envoyconfig.File{Name: "good.yaml", Content: []byte("domain: a")}
	same := envoyconfig.File{Name: "same.yaml", Content: []byte("domain: a")}
	bad := envoyconfig.File{Name: "bad.yaml", Content: []byte("domain: b\nfoo: 1")}
	for _, c := range []struct {
		name  string
		files []envoyconfig.File
		merge bool
		want  string
	}{
		{"valid", []envoyconfig.File{good}, false, "<nil>"},
		{"no files", nil, false, "<nil>"},
		{"duplicate domain", []envoyconfig.File{good, same}, false, "same.yaml: duplicate domain 'a' in config file"},
		{"merged", []envoyconfig.File{good, same}, true, "<nil>"},
		{"two invalid files", []envoyconfig.File{good, bad, same}, false, "bad.yaml: config error, unknown key 'foo'\nsame.yaml: duplicate domain 'a' in config file"},
	} {
		_, err := envoyconfig.Parse(c.files, &envoyconfig.ParseOptions{MergeDomains: c.merge})
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%s: got %q want %q", c.name, got, c.want)
		}
	}
	// only domains are merged: a duplicate descriptor is still an error
	one := envoyconfig.File{Name: "one.yaml", Content: []byte("domain: a\ndescriptors: [{key: k}]")}
	two := envoyconfig.File{Name: "two.yaml", Content: []byte("domain: a\ndescriptors: [{key: k}]")}
	_, err := envoyconfig.Parse([]envoyconfig.File{one, two}, &envoyconfig.ParseOptions{MergeDomains: true})
	if got, want := fmt.Sprint(err), "two.yaml: duplicate descriptor composite key 'a.k'"; got != want {
		t.Errorf("got %q want %q", got, want)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	headers, contents := sections(t, "testdata/warnings.txt")
	for i, want := range headers {
		var got []string
		for _, w := range mustParse(t, contents[i]).Warnings() {
			got = append(got, w.String())
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s\n got %s\nwant %s", contents[i], strings.Join(got, "; "), want)
		}
	}
}

// Files that expand to many values, are nested too deep or are too long are refused
// quickly.
func TestParseExpansionAttacks(t *testing.T) {
	t.Parallel()
	laughs := "domain: d\nmetadata:\n  a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		laughs += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	var wide strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&wide, "%d: ,", i)
	}
	for name, text := range map[string]string{
		"a billion laughs": laughs,
		"wide":             "foo: {" + wide.String() + "}",
		"deep":             "domain: d\ndescriptors: " + strings.Repeat("[", 10_000),
		"deep and closed":  "domain: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"long":             "domain: " + strings.Repeat("d", envoyconfig.MaxFileBytes),
	} {
		if _, err := parse("bomb.yaml", text); !errors.Is(err, envoyconfig.ErrInvalid) {
			t.Errorf("%s: got %v, want an error", name, err)
		}
	}
}
