package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// recorder is a response writer that remembers status and size. What a writer may do beside, it does through the one below, and
// says so if that cannot: for code that asks by type assertion, as [http.ResponseController] does by Unwrap.
type recorder struct {
	http.ResponseWriter

	status   int // 0 until the answer begins
	bytes    int64
	hijacked bool
}

// Unwrap is the writer below, for [http.ResponseController].
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader remembers the first status that is an answer: 100 to 199 are not, but for 101.
func (rec *recorder) WriteHeader(status int) {
	rec.ResponseWriter.WriteHeader(status) // it panics if there is no such status
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		rec.begin(status)
	}
}

// begin remembers the status, if it is the first and this is still an answer.
func (rec *recorder) begin(status int) {
	if rec.status == 0 && !rec.hijacked {
		rec.status = status
	}
}

func (rec *recorder) Write(p []byte) (int, error) {
	rec.begin(http.StatusOK)
	n, err := rec.ResponseWriter.Write(p)
	rec.bytes += int64(n)
	return n, err
}

// WriteString saves a copy where the writer below does.
func (rec *recorder) WriteString(s string) (int, error) {
	rec.begin(http.StatusOK)
	n, err := io.WriteString(rec.ResponseWriter, s)
	rec.bytes += int64(n)
	return n, err
}

// ReadFrom lets the writer below send files without copying them.
func (rec *recorder) ReadFrom(src io.Reader) (int64, error) {
	rec.begin(http.StatusOK)
	n, err := io.Copy(rec.ResponseWriter, src)
	rec.bytes += n
	return n, err
}

// Flush sends what was written; a writer below that cannot is left alone.
func (rec *recorder) Flush() { _ = rec.FlushError() }

// FlushError is Flush and what went wrong.
func (rec *recorder) FlushError() error {
	err := http.NewResponseController(rec.ResponseWriter).Flush()
	if err == nil {
		rec.begin(http.StatusOK)
	}
	return err
}

// Hijack hands the connection over.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(rec.ResponseWriter).Hijack()
	rec.hijacked = rec.hijacked || err == nil
	return conn, rw, err
}

// outcome is how it ended.
func (rec *recorder) outcome(panicked bool) Outcome {
	o := Outcome{Status: rec.status, Bytes: rec.bytes, Panicked: panicked}
	switch {
	case o.Status != 0:
	case rec.hijacked:
		o.Status = http.StatusSwitchingProtocols
	case panicked:
		o.Status = http.StatusInternalServerError
	default:
		o.Status = http.StatusOK
	}
	return o
}
