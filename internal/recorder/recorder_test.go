package recorder_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/recorder"
)

// final drops informational responses, which httptest would record as the response.
type final struct{ *httptest.ResponseRecorder }

func (w final) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.ResponseRecorder.WriteHeader(status)
	}
}

// Before is called once, while header fields can still be set, for any kind of first
// write.
func TestBeforeIsCalledOnce(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*recorder.Recorder){
		"WriteHeader": func(rec *recorder.Recorder) { rec.WriteHeader(http.StatusTeapot) },
		"Write":       func(rec *recorder.Recorder) { _, _ = rec.Write([]byte("body")) },
		"WriteString": func(rec *recorder.Recorder) { _, _ = rec.WriteString("body") },
		"ReadFrom":    func(rec *recorder.Recorder) { _, _ = rec.ReadFrom(strings.NewReader("body")) },
		"Flush":       func(rec *recorder.Recorder) { rec.Flush() },
		"Begin":       func(rec *recorder.Recorder) { rec.Begin(http.StatusOK) },
	} {
		w, calls := httptest.NewRecorder(), 0
		rec := &recorder.Recorder{ResponseWriter: final{w}}
		rec.Before = func() {
			calls++
			rec.Header().Set("X-Before", "set")
		}
		rec.WriteHeader(http.StatusEarlyHints)
		if calls != 0 || rec.Status() != 0 {
			t.Errorf("%s: an informational status counts as the answer", name)
		}
		write(rec)
		_, _ = io.WriteString(rec, "more")
		if want := w.Code; calls != 1 || w.Result().Header.Get("X-Before") != "set" || rec.Status() != want {
			t.Errorf("%s: %d calls, header %v, status %d want 1, the field, %d", name, calls, w.Result().Header, rec.Status(), want)
		}
	}
}

// plain is a writer that cannot flush.
type plain struct{ http.ResponseWriter }

// An unsupported flush does not start the response.
func TestFlushUnsupported(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]http.ResponseWriter{
		"a plain writer":       plain{httptest.NewRecorder()},
		"a recorder around it": &recorder.Recorder{ResponseWriter: plain{httptest.NewRecorder()}},
	} {
		rec := &recorder.Recorder{ResponseWriter: w, Before: func() { t.Errorf("%s: Before was called", name) }}
		if err := rec.FlushError(); !errors.Is(err, errors.ErrUnsupported) || rec.Status() != 0 {
			t.Errorf("%s: got error %v, status %d want ErrUnsupported, 0", name, err, rec.Status())
		}
	}
}
