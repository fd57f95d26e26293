package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// The watched folders determine which changes are detected.
func TestFolders(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{"plain", "k8s/..one", "releases/42", "deep/er"} {
		if err := os.MkdirAll(at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"plain/f.yaml", "k8s/..one/f.yaml", "releases/42/f.yaml"} {
		replace(t, at(file), "# a comment\n")
	}
	for link, target := range map[string]string{
		"k8s/..data": "..one", "k8s/f.yaml": "..data/f.yaml", "current": "releases/42", "circle": "circle", "deep/er/up": at("current"),
	} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path string
		want []string
	}{
		{"plain/f.yaml", []string{"plain"}},
		{"plain/gone.yaml", []string{"plain"}},
		{"gone/for/good/f.yaml", []string{"."}},
		{"k8s/f.yaml", []string{"k8s", "k8s/..one"}},
		{"current/f.yaml", []string{".", "releases/42"}},
		{"deep/er/up/f.yaml", []string{"deep/er", ".", "releases/42"}},
		{"circle", []string{"."}},
		{"plain", []string{"plain", "."}},
	} {
		want := make([]string, len(c.want))
		for i, folder := range c.want {
			want[i] = at(folder)
		}
		if got := config.Folders(at(c.path)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q want %q", c.path, got, want)
		}
	}
}

// Each swap of a link to a folder, as Kubernetes does it, is reported.
func TestWatchSwappedLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := func(name, target string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name+".new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	folder := func(name string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		replace(t, filepath.Join(dir, name, "f.yaml"), "# "+name+"\n")
	}
	folder("..0")
	link("..data", "..0")
	link("f.yaml", "..data/f.yaml")
	w, err := config.Watch(filepath.Join(dir, "f.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range 5 {
		last, next := ".."+string(rune('0'+i)), ".."+string(rune('1'+i))
		folder(next)
		link("..data", next)
		if err := os.RemoveAll(filepath.Join(dir, last)); err != nil {
			t.Fatal(err)
		}
		for {
			select {
			case <-w.Changes():
			case <-time.After(30 * time.Second):
				t.Fatalf("swap %d was not reported", i+1)
			}
			text, err := os.ReadFile(filepath.Join(dir, "f.yaml"))
			if err == nil && string(text) == "# "+next+"\n" {
				break
			}
		}
	}
	for len(w.Changes()) > 0 {
		<-w.Changes()
	}
	replace(t, filepath.Join(dir, "..5", "f.yaml"), "# written in the current folder\n")
	select {
	case <-w.Changes():
	case <-time.After(30 * time.Second):
		t.Error("a change in the last folder was not reported")
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// If the system has no watches available, changes are found by polling, and each poll
// tries to get a watch.
func TestWatchWithoutSystemWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		w := config.WatchWhere("/etc/headgate.yaml", func() (*fsnotify.Watcher, error) { opened++; return nil, syscall.EMFILE })
		began := time.Now()
		for range 3 {
			<-w.Changes()
		}
		if took := time.Since(began); took != 30*time.Second || opened != 4 {
			t.Errorf("three changes in %v, watcher opened %d times; want 30s and 4", took, opened)
		}
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
