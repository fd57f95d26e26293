package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFourthOfABurstIsDenied(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for i, want := range []int{200, 200, 200, 429} {
		answer, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != want {
			t.Fatalf("request %d: got %d, %v, want %d", i+1, answer.StatusCode, err, want)
		}
		if answer.Header.Get("RateLimit") == "" {
			t.Errorf("request %d: no RateLimit field", i+1)
		}
		if want == 429 && (answer.Header.Get("Retry-After") != "6" || !strings.Contains(string(body), "quota-exceeded")) {
			t.Errorf("denied: Retry-After %q, body %s", answer.Header.Get("Retry-After"), body)
		}
	}
}
