package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// pipeListener is a listener without a network, so that tests can use synthetic time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipeListener) Close() error   { close(p.done); return nil }
func (p *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// serve starts a server that echoes request bodies under a limit. It returns a client
// and the number of requests that the server received.
func serve(t *testing.T, limit string) (client *http.Client, received *int) {
	t.Helper()
	mw, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{Policy: headgate.MustPolicy(limit)})
	if err != nil {
		t.Fatal(err)
	}
	received = new(int)
	limited := mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*received++
		limited.ServeHTTP(w, r)
	})}
	listener := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	go server.Serve(listener)
	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close() })
	return &http.Client{Transport: &retrier{next: transport, attempts: 3, maxDelay: time.Minute}}, received
}

func TestClientWaitsForRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, received := serve(t, "1/30s burst 2")
		began := time.Now()
		for i := range 4 {
			text := fmt.Sprint("text ", i)
			resp, err := client.Post("http://server/", "text/plain", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || string(body) != text {
				t.Errorf("request %d: got %d and %d bytes, %v, want 200 and %d", i, resp.StatusCode, len(body), err, len(text))
			}
		}
		if took := time.Since(began); took != time.Minute || *received != 6 {
			t.Errorf("took %v and %d requests, want 1m0s and 6: each Retry-After is exact", took, *received)
		}
	})
}

// always429 denies every request and records its body.
type always429 struct{ sent []string }

func (a *always429) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	a.sent = append(a.sent, string(body))
	return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody}, err
}

func TestClientResendsBodyAndLimitsAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &always429{}
		client := &http.Client{Transport: &retrier{next: server, attempts: 3, maxDelay: time.Minute}}
		resp, err := client.Post("http://server/", "text/plain", strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := []string{"text", "text", "text"}; resp.StatusCode != 429 || !slices.Equal(server.sent, want) {
			t.Errorf("got %d after %q, want 429 after %q", resp.StatusCode, server.sent, want)
		}
	})
}

func TestClientDoesNotWaitLongerThanMaxDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, received := serve(t, "1/1h")
		for _, want := range []int{200, 429} {
			resp, err := client.Get("http://server/")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("got %d, want %d", resp.StatusCode, want)
			}
		}
		if *received != 2 {
			t.Errorf("%d requests, want 2: an hour is above the maximum delay", *received)
		}
	})
}

func TestClientStopsWaitingWhenContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, "1/30s")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		for i := range 2 {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(r)
			if i == 0 && err == nil {
				resp.Body.Close()
			}
			if i == 1 && (!errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second) {
				t.Errorf("got %v after %v, want %v after 5s", err, time.Since(began), context.DeadlineExceeded)
			}
		}
	})
}

func TestRetryAfterFormats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for field, want := range map[string]time.Duration{
			time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat): 7 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):      0,
			"3": 3 * time.Second,
		} {
			got, ok := retryAfter(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {field}}})
			if !ok || got != want {
				t.Errorf("%s: got %v, %t, want %v", field, got, ok, want)
			}
		}
		for _, field := range []string{"", "soon", "-1", "1.5"} {
			if got, ok := retryAfter(&http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {field}}}); ok {
				t.Errorf("%q: got %v, want no delay", field, got)
			}
		}
	})
}
