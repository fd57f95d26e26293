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
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
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
		if resp.Header.Get("RateLimit") == "" {
			t.Errorf("request %d: no RateLimit field", i+1)
		}
		if want == 429 && (resp.Header.Get("Retry-After") != "6" || !strings.Contains(string(body), "quota-exceeded")) {
			t.Errorf("denied: Retry-After %q, body %s", resp.Header.Get("Retry-After"), body)
		}
	}
}
