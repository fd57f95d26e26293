package httplimit_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/headgate/headgate/httplimit"
)

// gzipWriter compresses the body and does not change header fields, like many simple
// middlewares.
type gzipWriter struct {
	http.ResponseWriter
	to io.Writer
}

func (s gzipWriter) Write(p []byte) (int, error) { return s.to.Write(p) }

// An outer middleware can change the body: denials have no Content-Length, and an
// existing one is removed.
func TestResponseBodyCanBeCompressed(t *testing.T) {
	t.Parallel()
	h := newMiddleware(t, nil, httplimit.Charge{Policy: policy("p", "1/1h")})(ok)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/long" {
			w.Header().Set("Content-Length", "100000")
		}
		to := gzip.NewWriter(w)
		defer to.Close()
		h.ServeHTTP(gzipWriter{w, to}, r)
	}))
	s.must(200, 429)
	if got := s.get("/long"); got.status != 429 || object(t, got.body)["status"] != 429.0 {
		t.Errorf("got %d %s want the complete denial", got.status, got.body)
	}
}
