package docsite

import (
	"flag"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
	"github.com/headgate/headgate/internal/leaktest"
)

const (
	root = "../../../.."
	// base is the path of the site on its server. It is not /, so that links that
	// ignore it are found.
	base = "/headgate/"
)

var pictures = flag.String("pictures", "", "write screenshots of all pages into this folder")

var (
	phone   = chromium.View{Width: 390, Height: 844, Phone: true, ReducedMotion: true}
	desktop = chromium.View{Width: 1280, Height: 800, ReducedMotion: true}
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// site is the built site on a server for static files, and a browser.
type site struct {
	*chromium.Browser
	folder string
	url    string   // with base
	pages  []string // HTML files, as paths in folder
	axe    string
}

// leftPage is the message of a script that was still executed when the test opened the
// next page. Chromium then runs no callbacks of the page that it leaves.
const leftPage = "The provided callback is no longer runnable"

// TestSite builds the site once, because that takes most of the time.
func TestSite(t *testing.T) {
	if testing.Short() {
		t.Skip("this test installs packages with npm")
	}
	t.Parallel()
	s := serve(t)
	t.Run("pages", s.testPages)
	t.Run("files", s.testFiles)
	t.Run("links", s.testLinks)
	t.Run("anchors", s.testAnchors)
	t.Run("layout", s.testLayout)
	t.Run("theme", s.testTheme)
	t.Run("search", s.testSearch)
	t.Run("no script", s.testWithoutScript)
	for _, m := range s.Console() {
		if !strings.Contains(m.Text, leftPage) {
			t.Errorf("the console contains: %s %s", m.Text, m.URL)
		}
	}
	for _, url := range s.Requests() {
		if !strings.HasPrefix(url, s.url) && !strings.HasPrefix(url, "data:") {
			t.Errorf("the site requests %s from another server", url)
		}
	}
	if len(s.Requests()) < len(s.pages) {
		t.Errorf("got %d requests for %d pages", len(s.Requests()), len(s.pages))
	}
}

func serve(t *testing.T) *site {
	t.Helper()
	s := &site{folder: filepath.Join(t.TempDir(), "site"), axe: chromium.InstallAxe(t)}
	if out, err := exec.Command(root+"/scripts/site", s.folder, base).CombinedOutput(); err != nil {
		t.Fatalf("scripts/site: %v\n%s", err, out)
	}
	walk(t, s.folder, func(name string) {
		if strings.HasSuffix(name, ".html") {
			s.pages = append(s.pages, name)
		}
	})
	server := httptest.NewServer(http.StripPrefix(strings.TrimSuffix(base, "/"), http.FileServer(http.Dir(s.folder))))
	t.Cleanup(server.Close)
	s.url = server.URL + base
	s.Browser = chromium.Start(t, desktop)
	return s
}

// open opens a page and waits until its scripts have started.
func (s *site) open(t *testing.T, page string) {
	t.Helper()
	s.Do(t, chromedp.Navigate(s.url+page))
	s.Until(t, "document.getElementById('app')?.__vue_app__ !== undefined")
}

// testPages: each page in docs/ is a page of the site.
func (s *site) testPages(t *testing.T) {
	sources := 0
	walk(t, root+"/docs", func(name string) {
		name, isPage := strings.CutSuffix(name, ".md")
		if !isPage {
			return
		}
		sources++
		if name = strings.Replace(name, "README", "index", 1) + ".html"; !slices.Contains(s.pages, name) {
			t.Errorf("the site has no page %s", name)
		}
	})
	if len(s.pages) != sources+1 { // and the page for wrong addresses
		t.Errorf("got %d pages of %d sources", len(s.pages), sources)
	}
}

// testFiles: each page has a content security policy, and comments about the tests of
// code blocks are removed.
func (s *site) testFiles(t *testing.T) {
	walk(t, s.folder, func(name string) {
		if !strings.HasSuffix(name, ".html") && !strings.HasSuffix(name, ".js") {
			return
		}
		text, err := os.ReadFile(filepath.Join(s.folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{"<!-- run:", "<!-- file:", "<!-- not run:"} {
			if strings.Contains(string(text), mark) {
				t.Errorf("%s contains %q", name, mark)
			}
		}
		policy := `<meta http-equiv="Content-Security-Policy" content="default-src 'none'`
		if strings.HasSuffix(name, ".html") && !strings.Contains(string(text), policy) {
			t.Errorf("%s has no content security policy", name)
		}
	})
}

// walk calls f with the path of each file in a folder.
func walk(t *testing.T, folder string, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			f(strings.TrimPrefix(path, folder+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
