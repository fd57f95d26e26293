package memcachedstore_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memcachedstore"
)

// scripted starts a server that answers each request with text, repeated up to a total
// of more than 300 MB if repeat is set.
func scripted(t *testing.T, text string, repeat bool) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		for reader := bufio.NewReader(conn); ; {
			if _, err := reader.ReadString('\n'); err != nil {
				return
			}
			_, err := io.WriteString(conn, text)
			for sent := 0; repeat && err == nil && sent < 300<<20; sent += len(text) {
				_, err = io.WriteString(conn, text)
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

// A malformed reply is an error, and no reply makes the process allocate more than a
// bound.
func TestMalformedReplies(t *testing.T) {
	const bound = 100 << 20
	for name, c := range map[string]struct {
		text   string
		repeat bool
	}{
		"huge item":              {"VALUE k 0 4294967295 1\r\n", false},
		"large item":             {"VALUE k 0 33554433 1\r\n", false},
		"size above 32 bits":     {"VALUE k 0 99999999999999999999 1\r\n", false},
		"negative size":          {"VALUE k 0 -1 1\r\n", false},
		"size is no number":      {"VALUE k 0 x 1\r\n", false},
		"short line":             {"VALUE\r\n", false},
		"item without its end":   {"VALUE k 0 1 1\r\nabc\r\nEND\r\n", false},
		"other text":             {"HTTP/1.1 400 Bad Request\r\n\r\n", false},
		"endless line":           {strings.Repeat("A", 1<<16), true},
		"endless end of a value": {"\r\n", false},
	} {
		s, err := memcachedstore.New(&memcachedstore.Options{Timeout: time.Second}, scripted(t, c.text, c.repeat))
		if err != nil {
			t.Fatal(err)
		}
		l, err := headgate.New(s, headgate.MustPolicy("10/1m"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var storeErr *headgate.StoreError
		if d, err := l.Allow(t.Context(), "key"); !errors.As(err, &storeErr) {
			t.Errorf("%s: got %+v, error %v want a store error", name, d, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > bound {
			t.Errorf("%s: got %d bytes allocated want at most %d", name, n, bound)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
