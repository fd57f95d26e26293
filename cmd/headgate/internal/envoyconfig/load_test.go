package envoyconfig_test

import (
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
	for _, name := range []string{"c.yml", "d.yaml~", "README.md", "below/e.yaml"} {
		write(t, filepath.Join(dir, name), "no: good")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dots    bool
		domains []string
	}{{false, []string{"a.yaml", "b.yaml"}}, {true, []string{"a.yaml", "b.yaml", ".hidden.yaml"}}} {
		config, err := envoyconfig.Load(dir, &envoyconfig.LoadOptions{DotFiles: c.dots})
		if err != nil || config.Domains() != len(c.domains) {
			t.Fatalf("dot files %v: got %v, error %v, want %v", c.dots, config, err, c.domains)
		}
		for _, name := range c.domains {
			if d := config.Domain(name); d == nil || d.Name() != name {
				t.Errorf("dot files %v: domain %s is missing", c.dots, name)
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
		read, err := envoyconfig.ReadFolder([]string{folder, filepath.Join(root, "current")}[i%2], false)
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
