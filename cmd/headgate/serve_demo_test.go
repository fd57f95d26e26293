package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// only starts the HTTP listener and no other.
var only = []string{"--resp-addr", "off", "--grpc-addr", "off", "--admin-addr", "off", "--http-addr"}

// The HTTP listener serves the demo page, whose streams do not delay a shutdown.
func TestServeDemoPage(t *testing.T) {
	t.Parallel()
	p := launch(t, 1, slices.Concat(only, []string{"127.0.0.1:0", "--shutdown-timeout", "1h"})...)
	url := "http://" + p.addrs["http"]
	resp, err := http.Get(url + "/demo")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/html") || resp.Request.URL.Path != "/demo/" {
		t.Errorf("got %s, %s at %s want the page at /demo/", resp.Status, kind, resp.Request.URL.Path)
	}
	stream, err := http.Get(url + "/demo/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	if !lines.Scan() || stream.StatusCode != http.StatusOK {
		t.Fatalf("got %s and no events", stream.Status)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until it ends
	}
	eventually(t, "the service shuts down", func() bool { return strings.Contains(p.text(), "shutdown complete") })
}

// A listener that other machines can reach does not serve the page, which has no login.
func TestServeDemoPageOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	p := launch(t, 1, slices.Concat(only, []string{"0.0.0.0:0"})...)
	_, port, err := net.SplitHostPort(p.addrs["http"])
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/demo", "/demo/", "/demo/events"} {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s%s", port, path))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %s want 404", path, resp.Status)
		}
	}
}

// The page is not served to requests from a proxy on this machine.
func TestServeDemoPageRefusesProxies(t *testing.T) {
	t.Parallel()
	p := launch(t, 1, slices.Concat(only, []string{"127.0.0.1:0"})...)
	for _, field := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host"} {
		r, err := http.NewRequest(http.MethodGet, "http://"+p.addrs["http"]+"/demo/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(field, "203.0.113.9")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %s want 404", field, resp.Status)
		}
	}
}
