package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTierLimits(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, c := range []struct {
		key, policy string
		admitted    int // of 10 consecutive requests
	}{
		{"k-alice", `"api:10/m burst 3";q=10;w=60`, 3},
		{"k-bob", `"api:100/s";q=100;w=1`, 10},
		{"k-cleo", ``, 10},
		{"k-dan", ``, 0},
		{"k-eve", `"api";q=1;w=60`, 1},
		{"", `"anonymous"`, 2},
		{"k-invented", `"anonymous"`, 0}, // an unknown key counts for the address
	} {
		admitted := 0
		for range 10 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-API-Key", c.key)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				admitted++
			}
			if got := resp.Header.Get("RateLimit-Policy"); !strings.HasPrefix(got, c.policy) || c.policy == "" && got != "" {
				t.Errorf("key %q: RateLimit-Policy %q, want it to begin with %s", c.key, got, c.policy)
			}
		}
		if admitted != c.admitted {
			t.Errorf("key %q: %d of 10 admitted, want %d", c.key, admitted, c.admitted)
		}
	}
}
