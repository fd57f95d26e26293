package bounded_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// failing is a listener whose Accept fails with an error.
type failing struct {
	net.Listener
	err   error
	calls int
}

func (f *failing) Accept() (net.Conn, error) { f.calls++; return nil, f.err }
func (f *failing) Close() error              { return nil }

// A lack of file descriptors is logged once a minute, with the number of errors, in the
// same words for every listener. Closing the listener ends the retries.
func TestRetryLogsOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		inner := &failing{err: &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}}
		ln := bounded.Retry(inner, slog.New(slog.NewTextHandler(&log, nil)))
		ended := make(chan error, 1)
		go func() { _, err := ln.Accept(); ended <- err }()
		time.Sleep(150 * time.Second)
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v, want net.ErrClosed", err)
		}
		lines := strings.Count(log.String(), "\n")
		if want := `level=WARN msg="accept failed; retrying" error="too many open files" errors=1`; lines != 3 || !strings.Contains(log.String(), want) {
			t.Errorf("logged %d lines in 150 s, want 3 and the first with %s:\n%s", lines, want, log.String())
		}
		if want := fmt.Sprintf("errors=%d", 60); !strings.Contains(log.String(), want) {
			t.Errorf("no line contains %s:\n%s", want, log.String())
		}
	})
}

// An error that is not temporary ends Accept.
func TestRetryReturnsOtherErrors(t *testing.T) {
	t.Parallel()
	inner := &failing{err: io.ErrUnexpectedEOF}
	if _, err := bounded.Retry(inner, nil).Accept(); !errors.Is(err, io.ErrUnexpectedEOF) || inner.calls != 1 {
		t.Errorf("Accept: %v after %d calls, want the error after 1", err, inner.calls)
	}
}

// Connections above the maximum are closed; after one has ended, another is accepted.
func TestListener(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	set := bounded.New(bounded.Limits{Connections: 2})
	ln := bounded.Listener(inner, set, 100)
	t.Cleanup(func() { _ = ln.Close() })
	accepted := make(chan *bounded.NetConn)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			bounded := conn.(*bounded.NetConn)
			bounded.Handle.Busy()
			accepted <- bounded
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a third connection: got a byte, want its end")
	}
	_ = first.Close()
	_ = first.Close() // counts once
	third := dial()
	if _, err := io.WriteString(<-accepted, "x"); err != nil {
		t.Error(err)
	}
	if n, err := third.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("after the first was closed: got %d bytes, error %v want 1", n, err)
	}
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a fourth connection: got a byte, want its end")
	}
	if n := set.Bytes(); n != 200 {
		t.Errorf("two connections hold %d bytes, want 200", n)
	}
	_ = second.Close()
}
