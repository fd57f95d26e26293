package envoyconfig_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoadSelectsYAMLFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml", ".hidden.yaml"} {
		write(t, filepath.Join(dir, name), "domain: "+name)
	}
	for _, name := range []string{"c.yml", "d.yaml~", "README.md", "below/e.yaml", "f.YAML", "..version/g.yaml"} {
		write(t, filepath.Join(dir, name), "no: good")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dots    bool
		domains []string
	}{{false, []string{"a.yaml", "b.yaml"}}, {true, []string{"a.yaml", "b.yaml", ".hidden.yaml"}}} {
		config, err := envoyconfig.Load(dir, &envoyconfig.LoadOptions{FolderOptions: envoyconfig.FolderOptions{DotFiles: c.dots}})
		if err != nil || config.Domains() != len(c.domains) {
			t.Fatalf("dot files %v: got %v, error %v, want %v", c.dots, config, err, c.domains)
		}
		for _, name := range c.domains {
			if d := config.Domain(name); d == nil || d.Name() != name {
				t.Errorf("dot files %v: domain %s is missing", c.dots, name)
			}
		}
		warnings := fmt.Sprint(config.Warnings())
		if len(config.Warnings()) != 2 || !strings.Contains(warnings, "c.yml: the file is not read") || !strings.Contains(warnings, "f.YAML: the file is not read") {
			t.Errorf("got the warnings %s, want those about c.yml and f.YAML", warnings)
		}
	}
}

// With AllFiles, the files that envoyproxy/ratelimit reads are loaded.
func TestLoadAllFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"a.yaml", "b.yml", "c.YAML", "d.json", "e", "f.yaml~", "below/g.yaml", "below/further/h"}
	hidden := []string{".hidden", "below/.hidden.yaml", ".folder/i.yaml"}
	for _, name := range append(names, hidden...) {
		write(t, filepath.Join(dir, name), "domain: "+name)
	}
	for _, name := range []string{"..version/a.yaml", "..version/x.yaml"} {
		write(t, filepath.Join(dir, name), "no: good")
	}
	for link, target := range map[string]string{"..data": "..version", "link.yaml": "../outside.yaml", "linked": "below"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "..", "outside.yaml"), "domain: link.yaml")
	for _, dots := range []bool{false, true} {
		want := append(names[:len(names):len(names)], "link.yaml")
		if dots {
			want = append(want, hidden...)
		}
		config, err := envoyconfig.Load(dir, &envoyconfig.LoadOptions{FolderOptions: envoyconfig.FolderOptions{DotFiles: dots, AllFiles: true}})
		if err != nil || config.Domains() != len(want) || len(config.Warnings()) > 0 {
			t.Fatalf("dot files %v: got %v, error %v, want %d domains without warnings", dots, config, err, len(want))
		}
		for _, name := range want {
			if config.Domain(name) == nil {
				t.Errorf("dot files %v: %s is not read", dots, name)
			}
		}
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := envoyconfig.Load(filepath.Join(dir, "gone"), nil); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, envoyconfig.ErrInvalid) {
		t.Errorf("missing folder: got %v", err)
	}
	write(t, filepath.Join(dir, "file"), "")
	if _, err := envoyconfig.Load(filepath.Join(dir, "file"), nil); err == nil {
		t.Error("a file instead of a folder: got no error")
	}
	config, err := envoyconfig.Load(dir, nil)
	if err != nil || config.Domains() != 0 {
		t.Errorf("empty folder: got %v, error %v, want a configuration without domains", config, err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := envoyconfig.Load(dir, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a broken link: got %v", err)
	}
	large := t.TempDir()
	write(t, filepath.Join(large, "a.yaml"), "domain: "+strings.Repeat("d", envoyconfig.MaxFileBytes))
	if _, err := envoyconfig.Load(large, nil); !errors.Is(err, envoyconfig.ErrInvalid) {
		t.Errorf("a large file: got %v", err)
	}
}

// Kubernetes swaps ..data, and the layout of envoyproxy/ratelimit swaps the root: the
// files that ReadFolder returns are always of one version.
func TestReadFolderDuringSwap(t *testing.T) {
	t.Parallel()
	const files, swaps = 8, 200
	root := t.TempDir()
	for v := range 2 {
		for i := range files {
			write(t, filepath.Join(root, "v"+strconv.Itoa(v), fmt.Sprintf("%d.yaml", i)), fmt.Sprintf("domain: d%d\ndescriptors: [{key: v%d}]", i, v))
		}
	}
	folder := filepath.Join(root, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	swap := func(link, target string) {
		if err := os.Symlink(target, link+"_tmp"); err != nil {
			t.Error(err)
		}
		if err := os.Rename(link+"_tmp", link); err != nil {
			t.Error(err)
		}
	}
	swap(filepath.Join(folder, "..data"), "../v0")
	swap(filepath.Join(root, "current"), "v0")
	for i := range files {
		if err := os.Symlink(fmt.Sprintf("..data/%d.yaml", i), filepath.Join(folder, fmt.Sprintf("%d.yaml", i))); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range swaps {
			swap(filepath.Join(folder, "..data"), fmt.Sprintf("../v%d", i%2))
			swap(filepath.Join(root, "current"), fmt.Sprintf("v%d", i%2))
		}
	})
	for i := range swaps {
		read, err := envoyconfig.ReadFolder([]string{folder, filepath.Join(root, "current")}[i%2], envoyconfig.FolderOptions{AllFiles: i%4 < 2})
		if err != nil {
			continue // the folder kept changing
		}
		for _, f := range read {
			if string(f.Content[len(f.Content)-5:]) != string(read[0].Content[len(read[0].Content)-5:]) {
				t.Fatalf("files of two versions: %q and %q", f.Content, read[0].Content)
			}
		}
	}
	wg.Wait()
}

// Keys of metadata that are not strings become strings as in envoyproxy/ratelimit: at the
// top their text, below their value.
func TestMetadataKeys(t *testing.T) {
	t.Parallel()
	c, err := envoyconfig.Parse([]envoyconfig.File{{Name: "m.yaml", Content: []byte(`
domain: d
descriptors:
  - key: k
    rate_limit: {unit: day, requests_per_unit: 1}
    metadata: {y: 1, 2: two, ~: none, nest: {no: a, 1.5: b, on: [x, {010: c}], ~: d, text: e}}
`)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Rules()[0].Metadata.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, got); err != nil {
		t.Fatal(err)
	}
	want := `{"":"none","2":"two","nest":{"1.5":"b","<nil>":"d","false":"a","text":"e","true":["x",{"8":"c"}]},"y":1}`
	if compact.String() != want {
		t.Errorf("got %s want %s", &compact, want)
	}
}
