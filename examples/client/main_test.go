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

// pipes is a listener without a network, so that time can be the test's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// serve answers with the bodies that it gets, under a limit, and returns a client and how many requests came.
func serve(t *testing.T, limit string) (client *http.Client, came *int) {
	t.Helper()
	mw, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{Policy: headgate.MustPolicy(limit)})
	if err != nil {
		t.Fatal(err)
	}
	came = new(int)
	limited := mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*came++
		limited.ServeHTTP(w, r)
	})}
	listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	go server.Serve(listener)
	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close() })
	return &http.Client{Transport: &patient{next: transport, tries: 3, longest: time.Minute}}, came
}

func TestWaitsAsLongAsToldAndNoLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, came := serve(t, "1/30s burst 2")
		began := time.Now()
		for i := range 4 {
			text := fmt.Sprint("text ", i)
			answer, err := client.Post("http://server/", "text/plain", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.StatusCode != 200 || string(body) != text {
				t.Errorf("request %d: got %d and %d bytes, %v, want 200 and %d", i, answer.StatusCode, len(body), err, len(text))
			}
		}
		if took := time.Since(began); took != time.Minute || *came != 6 {
			t.Errorf("took %v and %d requests, want 1m0s and 6: each wait is told exactly", took, *came)
		}
	})
}

// always429 denies, and keeps what it was sent.
type always429 struct{ sent []string }

func (a *always429) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	a.sent = append(a.sent, string(body))
	return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody}, err
}

func TestSendsAllAgainAndNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &always429{}
		client := &http.Client{Transport: &patient{next: server, tries: 3, longest: time.Minute}}
		answer, err := client.Post("http://server/", "text/plain", strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if want := []string{"text", "text", "text"}; answer.StatusCode != 429 || !slices.Equal(server.sent, want) {
			t.Errorf("got %d after %q, want 429 after %q", answer.StatusCode, server.sent, want)
		}
	})
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, came := serve(t, "1/1h")
		for _, want := range []int{200, 429} {
			answer, err := client.Get("http://server/")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("got %d, want %d", answer.StatusCode, want)
			}
		}
		if *came != 2 {
			t.Errorf("%d requests, want 2: an hour is beyond its patience", *came)
		}
	})
}

func TestStopsWaitingWithTheContext(t *testing.T) {
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
			answer, err := client.Do(r)
			if i == 0 && err == nil {
				answer.Body.Close()
			}
			if i == 1 && (!errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second) {
				t.Errorf("got %v after %v, want %v after 5s", err, time.Since(began), context.DeadlineExceeded)
			}
		}
	})
}

func TestRetryAfterAsADate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for field, want := range map[string]time.Duration{
			time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat): 7 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):      0,
			"3": 3 * time.Second,
		} {
			got, told := retryAfter(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {field}}})
			if !told || got != want {
				t.Errorf("%s: got %v, %t, want %v", field, got, told, want)
			}
		}
		for _, field := range []string{"", "soon", "-1", "1.5"} {
			if got, told := retryAfter(&http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {field}}}); told {
				t.Errorf("%q: got %v, want nothing told", field, got)
			}
		}
	})
}
