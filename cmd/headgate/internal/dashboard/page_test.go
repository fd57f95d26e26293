package dashboard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/dashboard"
)

// get returns the response of a path of the page.
func get(t *testing.T, path string) (header http.Header, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	dashboard.New().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: got status %d want 200", path, w.Code)
	}
	return w.Header(), w.Body.String()
}

// TestPageKeepsItsPolicy: nothing in the page is inline or from another origin, and the
// policy of the page forbids both.
func TestPageKeepsItsPolicy(t *testing.T) {
	t.Parallel()
	header, text := get(t, "/")
	policy := header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || header.Get("Set-Cookie") != "" {
		t.Errorf("got the policy %q and the cookie %q", policy, header.Get("Set-Cookie"))
	}
	for _, forbidden := range []string{`\sstyle=`, `<style`, `\son[a-z]+=`, `<script(>|\s[^>]*>[^<])`, `(src|href)="(https?:)?//`, `javascript:`, `\{\{`} {
		if found := regexp.MustCompile(forbidden).FindString(text); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	for _, link := range regexp.MustCompile(`(?:src|href)="([^"#:.][^":]*)"`).FindAllStringSubmatch(text, -1) {
		if header, content := get(t, "/"+link[1]); content == "" || header.Get("ETag") == "" || header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: got %d bytes with %v", link[1], len(content), header)
		}
	}
}

// TestModules: the page preloads each module that another one imports, and no module
// creates HTML from text.
func TestModules(t *testing.T) {
	t.Parallel()
	_, text := get(t, "/")
	files, err := filepath.Glob("web/js/*.js")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range regexp.MustCompile(`from '\./([a-z]+\.js)'`).FindAllStringSubmatch(string(script), -1) {
			if !strings.Contains(text, `<link rel="modulepreload" href="js/`+imported[1]+`">`) {
				t.Errorf("%s imports %s, which the page does not preload", file, imported[1])
			}
		}
		if found := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|localStorage|document\.cookie`).Find(script); found != nil {
			t.Errorf("%s uses %s", file, found)
		}
	}
}

// TestPageNeedsNoToken: the static files are served without a token, the data is not.
func TestPageNeedsNoToken(t *testing.T) {
	t.Parallel()
	s := start(t, "admin: {token: secret-token-of-the-test}"+policies)
	for path, want := range map[string]int{
		"/ui/": 200, "/ui/js/main.js": 200, "/ui/js/theme.js": 200, "/ui/style.css": 200, "/ui/none": 404,
		"/admin/v1/status": 401, "/metrics": 401, "/": 401,
	} {
		resp, err := http.Get(s.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || strings.Contains(string(text), "secret-token") {
			t.Errorf("%s: got %s, %v want %d", path, resp.Status, err, want)
		}
	}
	resp, err := http.Get(s.admin + "/ui")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Request.URL.Path != "/ui/" {
		t.Errorf("/ui leads to %s want /ui/", resp.Request.URL.Path)
	}
}
