package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate/headgate/internal/testserver"
)

// launchTLS starts a service with TLS on every listener. It requires client certificates
// for client.example.
func launchTLS(t *testing.T, dir string) *launched {
	var flags []string
	for _, name := range []string{"http", "grpc", "resp"} {
		flags = append(flags, "--"+name+"-addr", "127.0.0.1:0", "--"+name+"-tls-cert", dir+"/tls.crt", "--"+name+"-tls-key", dir+"/tls.key",
			"--"+name+"-client-ca", dir+"/ca.crt", "--"+name+"-client-name", "client.example")
	}
	return launch(t, 3, append(flags, "--admin-addr", "off")...)
}

// clientOf returns the TLS configuration of a client with these certificates.
func clientOf(a *testserver.Authority, pairs ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.Pool, ServerName: "server.example", Certificates: pairs, MinVersion: tls.VersionTLS12}
}

// serialsOf calls each listener. It returns the serial number of the certificate that the
// listener used, or an error if it did not answer.
func serialsOf(addrs map[string]string, config *tls.Config) (serials map[string]int64, errs map[string]error) {
	serials, errs = make(map[string]int64), make(map[string]error)
	for name, ask := range map[string]func(string, *tls.Config) error{"http": askHTTPS, "grpc": askGRPCS, "resp": askRESPS} {
		seen := config.Clone()
		seen.VerifyConnection = func(s tls.ConnectionState) error {
			serials[name] = s.PeerCertificates[0].SerialNumber.Int64()
			return nil
		}
		errs[name] = ask(addrs[name], seen)
	}
	return serials, errs
}

func askHTTPS(addr string, config *tls.Config) error {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + addr + "/livez") //nolint:noctx // it answers at once
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		return fmt.Errorf("%s %s", resp.Proto, resp.Status)
	}
	return nil
}

func askGRPCS(addr string, config *tls.Config) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err
}

func askRESPS(addr string, config *tls.Config) error {
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = fmt.Errorf("%q", line)
	}
	return err
}

func TestTLSOnEveryListener(t *testing.T) {
	t.Parallel()
	a, dir := testserver.NewAuthority(t), t.TempDir()
	a.Write(dir, 2, "server.example")
	known, other, untrusted := a.Write(t.TempDir(), 10, "client.example"), a.Write(t.TempDir(), 11, "other.example"),
		testserver.NewAuthority(t).Write(t.TempDir(), 12, "client.example")
	p := launchTLS(t, dir)
	serials, errs := serialsOf(p.addrs, clientOf(a, known))
	for name, err := range errs {
		if err != nil || serials[name] != 2 {
			t.Errorf("%s: certificate %d, error %v; want 2 and an answer", name, serials[name], err)
		}
	}
	for name, config := range map[string]*tls.Config{
		"missing": clientOf(a), "for another name": clientOf(a, other), "of another authority": clientOf(a, untrusted),
	} {
		_, errs := serialsOf(p.addrs, config)
		for listener, err := range errs {
			if err == nil {
				t.Errorf("%s: a client with a certificate %s was answered", listener, name)
			}
		}
	}
}

func TestBenchWithTLS(t *testing.T) {
	t.Parallel()
	a, dir, own := testserver.NewAuthority(t), t.TempDir(), t.TempDir()
	a.Write(dir, 2, "server.example")
	a.Write(own, 10, "client.example")
	p := launchTLS(t, dir)
	trust, show := []string{"--ca", dir + "/ca.crt", "--server-name", "server.example"}, []string{"--cert", own + "/tls.crt", "--key", own + "/tls.key"}
	// In TLS 1.3 a client may write before it receives the alert, and then finds its
	// connection closed.
	const cutOff = "certificate required|broken pipe|reset by peer|could not be established"
	for _, c := range []struct {
		name, scheme string
		flags        []string
		want         string
	}{
		{"http", "https", append(trust, show...), " 0 failed"},
		{"resp", "rediss", append(trust, show...), " 0 failed"},
		{"grpc", "grpcs", append(trust, show...), "no rate limit configuration"}, // the answer of the gRPC listener
		{"http", "https", trust, cutOff},
		{"resp", "rediss", trust, cutOff},
		{"http", "https", show, "certificate"}, // for 127.0.0.1, or unknown
		{"http", "https", append(trust[:2:2], show...), "127.0.0.1"},
		{"http", "http", trust, "require an https://, grpcs:// or rediss:// URL"},
		{"http", "https", []string{"--ca", own + "/tls.key"}, "contains no certificate"},
		{"http", "https", []string{"--ca", own + "/none"}, "--ca, --cert and --key: open"},
		{"http", "https", show[:2], "--ca, --cert and --key: the certificate file and the key file must be set together"},
	} {
		args := append([]string{"bench", c.scheme + "://" + p.addrs[c.name], "--duration", "50ms", "--connections", "2"}, c.flags...)
		out, _ := exec.Command("headgate", args...).CombinedOutput()
		if !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("%s, %v: %s, want %q", c.name, c.flags, out, c.want)
		}
	}
}

func TestCertificateReload(t *testing.T) {
	t.Parallel()
	a, dir := testserver.NewAuthority(t), t.TempDir()
	a.Write(dir, 2, "server.example")
	client := clientOf(a, a.Write(t.TempDir(), 10, "client.example"))
	p := launchTLS(t, dir)
	shows := func(serial int64) func() bool {
		return func() bool {
			serials, errs := serialsOf(p.addrs, client)
			for name, err := range errs {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			return serials["http"] == serial && serials["grpc"] == serial && serials["resp"] == serial
		}
	}
	a.Write(dir, 3, "server.example")
	eventually(t, "the second certificate is shown", shows(3))
	other := t.TempDir()
	a.Write(other, 4, "server.example")
	text, err := os.ReadFile(other + "/tls.crt")
	if err != nil {
		t.Fatal(err)
	}
	testserver.ReplaceFile(t, dir+"/tls.crt", text) // its key is another
	refused := "certificate reload failed; previous certificate stays in use"
	eventually(t, "a certificate that does not match its key is told of, and the good one stays", func() bool {
		return shows(3)() && strings.Count(p.text(), refused) == 3
	})
	if !shows(3)() || strings.Count(p.text(), refused) != 3 {
		t.Errorf("the reload is logged more than once:\n%s", p.text())
	}
	a.Write(dir, 5, "server.example")
	eventually(t, "the next good one is shown", shows(5))
}
