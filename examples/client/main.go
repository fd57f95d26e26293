// Client is an HTTP client that respects Retry-After. If a response has the status 429
// or 503, it repeats the request after the delay that the server requests, a limited
// number of times.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

// retrier is an http.RoundTripper that repeats requests after the delay in Retry-After.
type retrier struct {
	next     http.RoundTripper
	attempts int           // maximum number of attempts for a request
	maxDelay time.Duration // a response that requests a longer delay is returned without a retry
}

func (t *retrier) RoundTrip(r *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := t.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		delay, ok := retryAfter(resp)
		if !ok || delay > t.maxDelay || attempt >= t.attempts || r.Body != nil && r.GetBody == nil {
			return resp, nil
		}
		// read the body to its end, so that the connection can be reused
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		_ = resp.Body.Close()
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		if r, err = rewind(r); err != nil {
			return nil, err
		}
	}
}

// rewind returns a copy of r whose body can be read from the beginning.
func rewind(r *http.Request) (*http.Request, error) {
	r = r.Clone(r.Context())
	if r.GetBody == nil {
		return r, nil
	}
	var err error
	r.Body, err = r.GetBody()
	return r, err
}

// retryAfter returns the delay in the field Retry-After, which is a number of seconds
// or a date. It returns false if the response does not request a retry.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	field := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(field, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(field); err == nil {
		return max(0, time.Until(date)), true
	}
	return 0, false
}

func main() {
	client := &http.Client{Transport: &retrier{next: http.DefaultTransport, attempts: 5, maxDelay: time.Minute}}
	for _, url := range os.Args[1:] {
		resp, err := client.Get(url)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.Status, url)
		_ = resp.Body.Close()
	}
}
