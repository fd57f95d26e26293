package httplimit_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/headgate/headgate/httplimit"
)

// squeezed is the wrapper of many a tutorial: it compresses what is written, and leaves the header fields as they are.
type squeezed struct {
	http.ResponseWriter
	to io.Writer
}

func (s squeezed) Write(p []byte) (int, error) { return s.to.Write(p) }

// A middleware around that changes the body can: our answers do not say how long they are, nor does what it said of another body stay.
func TestAnswersCanBeCompressed(t *testing.T) {
	t.Parallel()
	h := by(t, nil, httplimit.Charge{Policy: policy("p", "1/1h")})(ok)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/long" {
			w.Header().Set("Content-Length", "100000")
		}
		to := gzip.NewWriter(w)
		defer to.Close()
		h.ServeHTTP(squeezed{w, to}, r)
	}))
	s.must(200, 429)
	if got := s.get("/long"); got.status != 429 || object(t, got.body)["status"] != 429.0 {
		t.Errorf("got %d %s want the whole denial", got.status, got.body)
	}
}
