package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// operator sends a request to the admin listener.
func (p *launched) operator(t *testing.T, path string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + p.addrs["admin"] + path) //nolint:noctx // it answers at once
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (p *launched) mustShowDraining(t *testing.T) {
	t.Helper()
	eventually(t, "the admin listener reports draining", func() bool {
		status, body := p.operator(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"draining"`)
	})
	if _, body := p.operator(t, "/metrics"); !strings.Contains(body, "\nheadgate_draining 1\n") {
		t.Error("headgate_draining is not 1")
	}
}

func terminated(t *testing.T, p *launched) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func TestAdminListenerReportsDrainingWithoutHTTP(t *testing.T) {
	t.Parallel()
	p := launch(t, 2, "--http-addr", "off", "--grpc-addr", "off", "--resp-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--drain-delay", "1h")
	terminated(t, p)
	p.mustShowDraining(t)
}

func TestAdminListenerClosesLast(t *testing.T) {
	t.Parallel()
	p := launch(t, 2, "--http-addr", "127.0.0.1:0", "--grpc-addr", "off", "--resp-addr", "off", "--admin-addr", "127.0.0.1:0")
	conn, err := net.Dial("tcp", p.addrs["http"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const body = `{"limit":"5/1h","key":"k"}`
	fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	answer := bufio.NewReader(conn)
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v", line, err)
	}
	terminated(t, p)
	eventually(t, "the listener refuses connections", func() bool {
		other, err := net.DialTimeout("tcp", p.addrs["http"], 10*time.Second)
		if err == nil {
			_ = other.Close()
		}
		return err != nil
	})
	for range 20 { // it stays so while a request is in flight
		p.mustShowDraining(t)
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprint(conn, body)
	if text, err := io.ReadAll(answer); err != nil || !strings.Contains(string(text), "HTTP/1.1 200 OK") {
		t.Errorf("the request in flight: %q, %v, want 200", text, err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the service ended with error %v", err)
	}
}

func TestTLSVersionsBefore12AreRefused(t *testing.T) {
	t.Parallel()
	a, dir := testserver.NewAuthority(t), t.TempDir()
	a.Write(dir, 2, "server.example")
	config := clientOf(a, a.Write(t.TempDir(), 10, "client.example"))
	p := launchTLS(t, dir)
	for version, accepted := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config.MinVersion, config.MaxVersion = version, version
		for listener, addr := range p.addrs {
			conn, err := tls.Dial("tcp", addr, config)
			if err == nil {
				_ = conn.Close()
			}
			if (err == nil) != accepted {
				t.Errorf("%s, %s: %v, want accepted: %v", listener, tls.VersionName(version), err, accepted)
			}
		}
	}
}
