// Package recorder provides a response writer for middleware that inspects the
// response. It records the status and the size.
package recorder

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Recorder is a response writer that records the status and the size. It also has the
// optional methods of other response writers, for code that uses type assertions. They
// call the wrapped writer, and return an error if that does not support them.
// [http.ResponseController] uses Unwrap instead.
type Recorder struct {
	http.ResponseWriter

	// Before is called once, before the response begins, so that it can still set
	// header fields. nil means that nothing is called.
	Before func()

	Bytes    int64 // number of body bytes that were written
	Hijacked bool
	status   int // response status; 0 until the response begins
	called   bool
}

// Status returns the response status. It is 101 if the connection was hijacked before a
// response began, and 0 if there is no response.
func (rec *Recorder) Status() int {
	if rec.status == 0 && rec.Hijacked {
		return http.StatusSwitchingProtocols
	}
	return rec.status
}

// Begin records that the response begins with a status, for a handler that returns
// without writing. It writes nothing.
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

// begin records the status, if it is the first one and the connection was not hijacked.
func (rec *Recorder) begin(status int) {
	if rec.status == 0 && !rec.Hijacked {
		rec.status = status
	}
}

// Unwrap returns the wrapped writer, for [http.ResponseController].
func (rec *Recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader writes the status, and records the first one that is final: statuses from
// 100 to 199, except 101, are not.
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

// Write writes data of the body.
func (rec *Recorder) Write(p []byte) (int, error) {
	rec.Begin(http.StatusOK)
	n, err := rec.ResponseWriter.Write(p)
	rec.Bytes += int64(n)
	return n, err
}

// WriteString writes text of the body. It saves a copy if the wrapped writer does.
func (rec *Recorder) WriteString(s string) (int, error) {
	rec.Begin(http.StatusOK)
	n, err := io.WriteString(rec.ResponseWriter, s)
	rec.Bytes += int64(n)
	return n, err
}

// ReadFrom writes src to the body. The wrapped writer can send a file without copying
// the content.
func (rec *Recorder) ReadFrom(src io.Reader) (int64, error) {
	rec.Begin(http.StatusOK)
	n, err := io.Copy(rec.ResponseWriter, src)
	rec.Bytes += n
	return n, err
}

// Flush sends the data that was written. It does nothing if the wrapped writer cannot
// flush.
func (rec *Recorder) Flush() { _ = rec.FlushError() }

// FlushError sends the data that was written. If the wrapped writer cannot flush, the
// response does not begin, and the error matches [errors.ErrUnsupported].
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

// canFlush reports whether [http.ResponseController.Flush] finds a writer that can
// flush.
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

// Hijack lets the caller take over the connection; see [http.Hijacker].
func (rec *Recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(rec.ResponseWriter).Hijack()
	rec.Hijacked = rec.Hijacked || err == nil
	return conn, rw, err
}
