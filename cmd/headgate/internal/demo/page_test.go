package demo_test

import (
	"bytes"
	"compress/gzip"
	"go/format"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// fetch returns the response of a path.
func fetch(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// TestFirstPaint: the page is useful without scripts, because limiters filled the table
// in it.
func TestFirstPaint(t *testing.T) {
	t.Parallel()
	_, text := fetch(t, serve(t, demo.Options{Store: "redis"}).URL)
	for title, want := range map[string]string{ // calculated by hand for 10 in 10 s, burst 20, queue 9
		"Token bucket": "20 20 20", "Token bucket by interval": "20 20 20", "Fixed window": "10 20 10",
		"Sliding log": "10 10 10", "Sliding window": "10 10 10", "Leaky bucket": "10 10 10",
	} {
		row := regexp.MustCompile(`<th scope="row">` + title + `</th><td[^>]*>[^<]+</td><td>(\d+)</td><td>(\d+)</td><td>(\d+)</td>`).FindStringSubmatch(text)
		if row == nil || strings.Join(row[1:], " ") != want {
			t.Errorf("%s: got %q want %s", title, row, want)
		}
	}
	for _, want := range []string{
		"store <b>redis</b>", "<noscript>", `data-scenario="edge"`, `<option value="draft-07">`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestPageKeepsItsPolicy: nothing in the page is inline or from another origin.
func TestPageKeepsItsPolicy(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{})
	_, text := fetch(t, s.URL)
	for _, forbidden := range []string{`\sstyle=`, `<style`, `\son[a-z]+=`, `<script(>|\s[^>]*>[^<])`, `(src|<link[^>]* href)="(https?:)?//`, `javascript:`} {
		if found := regexp.MustCompile(forbidden).FindString(text); found != "" {
			t.Errorf("the page holds %q", found)
		}
	}
	for _, link := range regexp.MustCompile(`(?:src|href)="([^"#:]+)"`).FindAllStringSubmatch(text, -1) {
		resp, content := fetch(t, s.URL+"/"+link[1])
		if resp.StatusCode != http.StatusOK || content == "" || resp.Header.Get("ETag") == "" {
			t.Errorf("%s: got %s", link[1], resp.Status)
		}
	}
	resp, _ := fetch(t, s.URL+"/js/main.js")
	if got := resp.Header.Get("Content-Type"); got != "text/javascript; charset=utf-8" {
		t.Errorf("a module's type is %q", got)
	}
	if status := get(t, s.URL+"/style.css", map[string]string{"If-None-Match": mustTag(t, s.URL+"/style.css")}); status != http.StatusNotModified {
		t.Errorf("the same file again: got %d want 304", status)
	}
}

// TestCompressed: a client that accepts gzip gets the same content compressed, with
// another entity tag.
func TestCompressed(t *testing.T) {
	t.Parallel()
	url := serve(t, demo.Options{}).URL + "/style.css"
	get := func(accepted string) (*http.Response, []byte) {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", accepted)
		resp, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, body
	}
	plain, text := get("identity, gzip;q=0")
	compressed, packed := get("br, gzip")
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(got, text) || len(packed) > len(text)/2 {
		t.Errorf("%d compressed bytes of %d differ from the content or are too many: %v", len(packed), len(text), err)
	}
	if plain.Header.Get("Content-Encoding") != "" || compressed.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("ETag") == compressed.Header.Get("ETag") {
		t.Errorf("got %v and %v, want gzip only if it is accepted, with another entity tag", plain.Header, compressed.Header)
	}
}

// TestModulesArePreloaded: the page has a link for each module that another one imports.
func TestModulesArePreloaded(t *testing.T) {
	t.Parallel()
	_, text := fetch(t, serve(t, demo.Options{}).URL)
	files, err := filepath.Glob("web/js/*.js")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range regexp.MustCompile(`from './([a-z]+\.js)'`).FindAllStringSubmatch(string(script), -1) {
			if !strings.Contains(text, `<link rel="modulepreload" href="js/`+imported[1]+`">`) {
				t.Errorf("%s imports %s, which the page does not preload", file, imported[1])
			}
		}
	}
}

func mustTag(t *testing.T, url string) string {
	t.Helper()
	resp, _ := fetch(t, url)
	return resp.Header.Get("ETag")
}

// TestMounted: the handler can be mounted under any path.
func TestMounted(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Options{})
	mux := http.NewServeMux()
	mux.Handle("/see/", http.StripPrefix("/see", s.page))
	s.Config.Handler = mux
	p := newTab(t, s.URL+"/see")
	p.mustAct(t, map[string]any{"do": "send", "n": 1})
	if resp, _ := fetch(t, s.URL+"/see/"); resp.StatusCode != http.StatusOK {
		t.Errorf("the page under a prefix: got %s", resp.Status)
	}
}

// TestSnippets: the Go code compiles for any input; the YAML and the curl line contain
// the limit and the key.
func TestSnippets(t *testing.T) {
	t.Parallel()
	p := newTab(t, serve(t, demo.Options{CheckURL: "http://127.0.0.1:7/v1/check"}).URL)
	key := "it's \"quoted\" \\ `so` ü"
	p.set(t, func(s *demo.Settings) { s.Key, s.Queue, s.Burst, s.PeriodMS = key, 0, 7, 1500 })
	for p.pageState.Settings.Key != key {
		p.next(t, "state", &p.pageState)
	}
	folder := t.TempDir()
	for a, code := range p.pageState.Code {
		if formatted, err := format.Source([]byte(code.Go)); err != nil || string(formatted) != code.Go {
			t.Errorf("%s: the Go code does not parse or is not formatted: %v", a, err)
		}
		if err := os.WriteFile(filepath.Join(folder, a+".go"), []byte(code.Go), 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(code.YAML, "algorithm: "+a+"\n") || !strings.Contains(code.YAML, `limits: ["10/1500ms`) {
			t.Errorf("%s: the YAML is %s", a, code.YAML)
		}
		if !strings.HasPrefix(code.Curl, `curl -d '{"limit":"10/1500ms`) || !strings.HasSuffix(code.Curl, "' http://127.0.0.1:7/v1/check\n") ||
			!strings.Contains(code.Curl, `it'\''s \"quoted\" \\ `+"`so`"+` ü`) {
			t.Errorf("%s: the curl line is %s", a, code.Curl)
		}
	}
	vetted := []string{"token_bucket", "leaky_bucket"} // the others differ only in a name
	if testing.Short() {
		vetted = vetted[:1]
	}
	for _, a := range vetted {
		if out, err := exec.Command("go", "vet", filepath.Join(folder, a+".go")).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", a, err, out)
		}
	}
}

func TestNewErrors(t *testing.T) {
	t.Parallel()
	store := small()
	defer store.Close()
	for name, opts := range map[string]*demo.Options{
		"no options": nil, "no own store": {}, "sessions": {OwnStore: small, MaxSessions: -1}, "idle": {OwnStore: small, IdleTimeout: -1},
	} {
		if _, err := demo.New(store, opts); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := demo.New(nil, &demo.Options{OwnStore: small}); err == nil {
		t.Error("no store: got no error")
	}
}
