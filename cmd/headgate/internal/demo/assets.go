package demo

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/headgate/headgate/internal/theme"
)

// addAssets adds a route for the icon and for each embedded file except the page. The
// style sheet begins with the colours of the theme.
func addAssets(mux *http.ServeMux) error {
	mux.Handle("GET /icon.svg", asset("icon.svg", []byte(theme.Icon)))
	return fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Base(name) == "page.html" {
			return err
		}
		content, err := web.ReadFile(name)
		if path.Base(name) == "style.css" {
			content = append([]byte(theme.Tokens), content...)
		}
		mux.Handle("GET "+name[len("web"):], asset(name, content))
		return err
	})
}

// modules returns a link for each module of the page, so that a browser loads them in
// parallel and not one import after another.
func modules() (links g.Group) {
	files, err := fs.Glob(web, "web/js/*.js")
	if err != nil {
		panic(err) // unreachable: the pattern is valid
	}
	for _, file := range files {
		if name := path.Base(file); name != "theme.js" { // not a module
			links = append(links, html.Link(html.Rel("modulepreload"), html.Href("js/"+name)))
		}
	}
	return links
}

// encoded is content in one encoding, and its entity tag.
type encoded struct {
	encoding string // empty for none
	content  []byte
	tag      string
}

func encode(encoding string, content []byte) encoded {
	sum := sha256.Sum256(content)
	return encoded{encoding, content, `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// asset returns a handler that serves content with the type of the file called name,
// compressed if the client accepts gzip. Browsers may cache the content but must
// revalidate it each time.
func asset(name string, content []byte) http.Handler {
	kinds := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8",
	}
	kind, ok := kinds[path.Ext(name)]
	if !ok {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	plain, compressed := encode("", content), encode("gzip", compress(content))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			compressed.serve(w, r)
		} else {
			plain.serve(w, r)
		}
	})
}

func (e *encoded) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", e.tag)
	if e.encoding != "" {
		w.Header().Set("Content-Encoding", e.encoding)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(e.content))
}

// acceptsGzip reports whether a client lists gzip without a weight, as browsers do.
func acceptsGzip(r *http.Request) bool {
	accepted := strings.Split(r.Header.Get("Accept-Encoding"), ",")
	return slices.ContainsFunc(accepted, func(encoding string) bool { return strings.TrimSpace(encoding) == "gzip" })
}

func compress(content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content) // a buffer returns no error
	_ = w.Close()
	return b.Bytes()
}
