// Client is an HTTP client that obeys Retry-After: an answer of 429 or 503 is asked for again when the server said, not earlier,
// and not more often than it has patience for.
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

// patient is a transport that waits and asks again.
type patient struct {
	next    http.RoundTripper
	tries   int           // in all
	longest time.Duration // it does not wait longer than that
}

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		answer, err := p.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		wait, told := retryAfter(answer)
		if !told || wait > p.longest || try >= p.tries || r.Body != nil && r.GetBody == nil {
			return answer, nil
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
		_ = answer.Body.Close()
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		if r, err = again(r); err != nil {
			return nil, err
		}
	}
}

// again is the same request with its body from the beginning.
func again(r *http.Request) (*http.Request, error) {
	r = r.Clone(r.Context())
	if r.GetBody == nil {
		return r, nil
	}
	var err error
	r.Body, err = r.GetBody()
	return r, err
}

// retryAfter is how long the server asks to wait: seconds, or a date.
func retryAfter(answer *http.Response) (time.Duration, bool) {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	field := answer.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(field, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(field); err == nil {
		return max(0, time.Until(date)), true
	}
	return 0, false
}

func main() {
	client := &http.Client{Transport: &patient{next: http.DefaultTransport, tries: 5, longest: time.Minute}}
	for _, url := range os.Args[1:] {
		answer, err := client.Get(url)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.Status, url)
		_ = answer.Body.Close()
	}
}
