// Package expect has checks that the tests of several examples share.
package expect

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// Get sends a GET request and returns the status and the header of the response.
func Get(t *testing.T, url string) (int, http.Header) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// RouteLimits checks that handler allows three requests to each limited route, whatever
// the path parameter is.
func RouteLimits(t *testing.T, handler http.Handler) {
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
		{"/items/4", 429}, // a new path parameter of the same route
		{"/items/1", 429},
		{"/users/1", 200}, // a different route
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

// FailedLoginLimit checks that handler allows two logins with a wrong password, and any
// number of logins with the right one before that.
func FailedLoginLimit(t *testing.T, handler http.Handler) {
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
		resp, err := http.PostForm(server.URL+"/login", url.Values{"password": {c.password}})
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != c.want {
			t.Errorf("attempt %d, %s: got %d, want %d", i+1, c.password, resp.StatusCode, c.want)
		}
	}
}
