package webpage

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

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

// Asset returns a handler that serves content with the type of the file called name,
// compressed if the client accepts gzip. Browsers may cache the content but must
// revalidate it each time.
func Asset(name string, content []byte) http.Handler {
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
