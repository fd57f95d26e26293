package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestFailedLoginsAreLimited(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	login := func(name, password string) (int, string, string) {
		t.Helper()
		resp, err := http.PostForm(server.URL+"/login", url.Values{"username": {name}, "password": {password}})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(body)
	}
	for range 3 {
		if status, _, body := login("alice", "correct horse"); status != 200 || !strings.Contains(body, "Welcome") {
			t.Fatalf("the right password: got %d %s", status, body)
		}
	}
	for i := range 5 {
		if status, _, body := login("bob", "guess"); status != 200 || !strings.Contains(body, "Wrong name") {
			t.Fatalf("guess %d: got %d %s", i+1, status, body)
		}
	}
	status, after, body := login("bob", "guess")
	if status != 429 || after == "" || !strings.Contains(body, "Please wait") {
		t.Errorf("guess 6: got %d, Retry-After %q, %s", status, after, body)
	}
	if status, _, body := login("alice", "correct horse"); status != 200 || !strings.Contains(body, "Welcome") {
		t.Errorf("alice after bob's guesses: got %d %s", status, body)
	}
	if resp, err := http.Get(server.URL + "/login"); err != nil || resp.StatusCode != 200 {
		t.Errorf("the form itself: got %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}
