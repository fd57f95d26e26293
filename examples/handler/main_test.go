package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRequestAboveBurstIsDenied(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newHandler())
	defer server.Close()
	for i, want := range []int{200, 200, 200, 429} {
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want {
			t.Fatalf("request %d: got %d, %v, want %d", i+1, resp.StatusCode, err, want)
		}
		if want == 429 {
			checkDenial(t, resp.Header, string(body))
		}
	}
}

// checkDenial compares a denial with the transcripts in README.md and docs/start/go.md.
func checkDenial(t *testing.T, header http.Header, body string) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Content-Type": "application/problem+json", "Ratelimit": `"default";r=0;t=6`,
		"Ratelimit-Policy": `"default";q=10;w=60;headgate-burst=3`, "Ratelimit-Reason": "rate", "Retry-After": "6",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(body, "quota-exceeded") {
		t.Errorf("the body is %s", body)
	}
}
