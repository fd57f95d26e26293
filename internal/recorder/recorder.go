// Package recorder is the response writer of middleware that looks at the answer: it
// remembers the status and the size.
package recorder

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Recorder is a response writer that remembers the status and the size. What else a
// writer can do, it does through the one below, and returns an error if that cannot:
// for code that asks by type assertion, as [http.ResponseController] does by Unwrap.
type Recorder struct {
	http.ResponseWriter

	// Before is called once, before the answer begins, while header fields can still be
	// set; nil means nothing is.
	Before func()

	Bytes    int64 // of the body, as far as it was written
	Hijacked bool
	status   int // 0 until the answer begins
	called   bool
}

// Status returns the answer's status: 101 if the connection was hijacked before it
// began, and 0 if nothing was answered.
func (rec *Recorder) Status() int {
	if rec.status == 0 && rec.Hijacked {
		return http.StatusSwitchingProtocols
	}
	return rec.status
}

// Begin notes that the answer begins with a status, for a handler that returns without
// writing. It writes nothing.
func (rec *Recorder) Begin(status int) {
	rec.call()
	rec.begin(status)
}

func (rec *Recorder) call() {
	if rec.Before != nil && !rec.called {
		rec.called = true
		rec.Before()
	}
}

// begin remembers the status, if it is the first and this is still an answer.
func (rec *Recorder) begin(status int) {
	if rec.status == 0 && !rec.Hijacked {
		rec.status = status
	}
}

// Unwrap returns the writer below, for [http.ResponseController].
func (rec *Recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader remembers the first status that is an answer: 100 to 199 are not, except
// 101.
func (rec *Recorder) WriteHeader(status int) {
	answers := status >= http.StatusOK || status == http.StatusSwitchingProtocols
	if answers {
		rec.call()
	}
	rec.ResponseWriter.WriteHeader(status) // panics if the status is invalid
	if answers {
		rec.begin(status)
	}
}

// Write writes a part of the body.
func (rec *Recorder) Write(p []byte) (int, error) {
	rec.Begin(http.StatusOK)
	n, err := rec.ResponseWriter.Write(p)
	rec.Bytes += int64(n)
	return n, err
}

// WriteString saves a copy where the writer below does.
func (rec *Recorder) WriteString(s string) (int, error) {
	rec.Begin(http.StatusOK)
	n, err := io.WriteString(rec.ResponseWriter, s)
	rec.Bytes += int64(n)
	return n, err
}

// ReadFrom lets the writer below send files without copying them.
func (rec *Recorder) ReadFrom(src io.Reader) (int64, error) {
	rec.Begin(http.StatusOK)
	n, err := io.Copy(rec.ResponseWriter, src)
	rec.Bytes += n
	return n, err
}

// Flush sends what was written. It does nothing if the writer below cannot flush.
func (rec *Recorder) Flush() { _ = rec.FlushError() }

// FlushError sends what was written. It returns an error that matches
// [errors.ErrUnsupported] if the writer below cannot flush; the answer then has not
// begun.
func (rec *Recorder) FlushError() error {
	if !canFlush(rec.ResponseWriter) {
		return http.ErrNotSupported
	}
	rec.call()
	err := http.NewResponseController(rec.ResponseWriter).Flush()
	if err == nil {
		rec.begin(http.StatusOK)
	}
	return err
}

// canFlush reports whether [http.ResponseController.Flush] reaches a writer that flushes.
func canFlush(w http.ResponseWriter) bool {
	switch w := w.(type) {
	case *Recorder:
		return canFlush(w.ResponseWriter)
	case interface{ FlushError() error }, http.Flusher:
		return true
	case interface{ Unwrap() http.ResponseWriter }:
		return canFlush(w.Unwrap())
	}
	return false
}

// Hijack hands the connection over.
func (rec *Recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(rec.ResponseWriter).Hijack()
	rec.Hijacked = rec.Hijacked || err == nil
	return conn, rw, err
}
