package docsite

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/chromium"
)

const forge = "https://github.com/headgate/headgate"

// document is what a page refers to, and what others can refer to.
type document struct {
	Page       string
	IDs, Links []string
}

// readDocuments parses the HTML files in the browser, without their scripts.
const readDocuments = `(pages) => Promise.all(pages.map(async (page) => {
	const parsed = new DOMParser().parseFromString(await (await fetch(page)).text(), 'text/html');
	const all = (name) => [...parsed.querySelectorAll('[' + name + ']')].map((e) => e.getAttribute(name));
	return { page, ids: all('id'), links: [...all('href'), ...all('src')] };
}))`

func (s *site) documents(t *testing.T) map[string]document {
	t.Helper()
	s.open(t, "")
	names, err := json.Marshal(s.pages)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]document{}
	for _, d := range chromium.Eval[[]document](t, s.Browser, fmt.Sprintf("(%s)(%s)", readDocuments, names)) {
		found[d.Page] = d
	}
	return found
}

// testLinks: each link and each source in the HTML files has a target, including its
// anchor.
func (s *site) testLinks(t *testing.T) {
	documents, sources, links := s.documents(t), sources(t), 0
	for page, d := range documents {
		for _, link := range d.Links {
			links++
			if problem := s.checkLink(page, link, documents, sources); problem != "" {
				t.Errorf("%s: %s: %s", page, link, problem)
			}
		}
	}
	if links < 50*len(s.pages) {
		t.Errorf("found %d links on %d pages", links, len(s.pages))
	}
	for _, c := range []struct{ link, want string }{
		{base + "faq.html", ""},
		{"/faq.html", "not on the site"},
		{"start/nothing.html", "no such file"},
		{"faq.html#nothing", "no such anchor"},
		{forge + "/blob/main/go.mod", ""},
		{forge + "/blob/main/nothing.go", "no such file"},
		{"http://README.md", "not in the sources"},
	} {
		if got := s.checkLink("index.html", c.link, documents, sources); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("check of %s: got %q, want %q", c.link, got, c.want)
		}
	}
}

// sources returns the text of the pages in docs/ and of README.md.
func sources(t *testing.T) string {
	t.Helper()
	names := []string{"README.md"}
	walk(t, root+"/docs", func(name string) { names = append(names, "docs/"+name) })
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// checkLink returns what is wrong with a link of a page. It makes no requests to other
// servers: a link to one must be in the sources, and a link to the repository must refer
// to a file in it.
func (s *site) checkLink(page, link string, documents map[string]document, sources string) string {
	from, err := url.Parse(base + page)
	if err != nil {
		return err.Error()
	}
	to, err := from.Parse(link)
	if err != nil {
		return err.Error()
	}
	if name, ok := strings.CutPrefix(link, forge+"/"); ok {
		return checkFile(name)
	}
	if to.Host != "" {
		if !strings.Contains(sources, link) && link != forge {
			return "it is not in the sources"
		}
		return ""
	}
	name, ok := strings.CutPrefix(to.Path, base)
	if !ok {
		return "it is not on the site"
	}
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	if _, err := os.Stat(filepath.Join(s.folder, name)); err != nil {
		return "no such file"
	}
	if to.Fragment != "" && !slices.Contains(documents[name].IDs, to.Fragment) {
		return "no such anchor"
	}
	return ""
}

// checkFile returns what is wrong with a path on the forge, such as blob/main/go.mod.
func checkFile(path string) string {
	path, _, _ = strings.Cut(path, "#")
	parts := strings.SplitN(path, "/", 3)
	if len(parts) != 3 || !slices.Contains([]string{"blob", "tree", "edit"}, parts[0]) || parts[1] != "main" {
		return "unexpected path on the forge"
	}
	if _, err := os.Stat(filepath.Join(root, parts[2])); err != nil {
		return "no such file in the repository"
	}
	return ""
}

// testAnchors compares anchors with those of GitHub.
func (s *site) testAnchors(t *testing.T) {
	documents := s.documents(t)
	for page, anchors := range map[string][]string{
		"faq.html":                      {"why-is-limit-200-for-100s-burst-200", "is-v1check-protected-by-a-password"},
		"operate/kubernetes.html":       {"autoscaling-and-instances"},
		"reference/redis-commands.html": {"clthrottle-key-max_burst-count-period-quantity", "hgcheck-hgpeek-hgrefund-hgreset-policy-key-cost"},
	} {
		for _, anchor := range anchors {
			if !slices.Contains(documents[page].IDs, anchor) {
				t.Errorf("%s has no anchor %s", page, anchor)
			}
		}
	}
}
