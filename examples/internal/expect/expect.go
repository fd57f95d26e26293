// Package expect holds what several examples are expected to do, whatever framework they are written for.
package expect

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// Get is the status and the header of an answer.
func Get(t *testing.T, url string) (int, http.Header) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode, answer.Header
}

// ALimitForEachRoute holds a server to three requests for each of its routes, whatever item they are for.
func ALimitForEachRoute(t *testing.T, handler http.Handler) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, c := range []struct {
		path string
		want int
	}{
		{"/items/1", 200},
		{"/items/2", 200},
		{"/items/3", 200},
		{"/items/4", 429}, // another item, the same route
		{"/items/1", 429},
		{"/users/1", 200}, // another route
		{"/health", 200},
		{"/nothing", 404},
	} {
		status, header := Get(t, server.URL+c.path)
		if status != c.want {
			t.Errorf("%s: got %d, want %d", c.path, status, c.want)
		}
		if limited := c.want != 404 && c.path != "/health"; (header.Get("RateLimit") != "") != limited {
			t.Errorf("%s: RateLimit is %q", c.path, header.Get("RateLimit"))
		}
		if (header.Get("Retry-After") != "") != (c.want == 429) {
			t.Errorf("%s: Retry-After is %q", c.path, header.Get("Retry-After"))
		}
	}
}

// OnlyWrongPasswordsCount holds a login to two wrong guesses, however often the right password comes.
func OnlyWrongPasswordsCount(t *testing.T, handler http.Handler) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	for i, c := range []struct {
		password string
		want     int
	}{
		{"correct horse", 200},
		{"correct horse", 200},
		{"correct horse", 200},
		{"guess", 401},
		{"guess", 401},
		{"guess", 429},
	} {
		answer, err := http.PostForm(server.URL+"/login", url.Values{"password": {c.password}})
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		if answer.StatusCode != c.want {
			t.Errorf("try %d, %s: got %d, want %d", i+1, c.password, answer.StatusCode, c.want)
		}
	}
}
