package envoyxds_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/cmd/headgate/internal/controlplane"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyxds"
	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
	"github.com/headgate/headgate/internal/testserver"
)

// scripted is a server with a function for each stream.
type scripted struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	streams atomic.Int64
	do      func(discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error
}

func (s *scripted) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	s.streams.Add(1)
	return s.do(stream)
}

func serve(t *testing.T, do func(discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error) (*scripted, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback port
	if err != nil {
		t.Fatal(err)
	}
	s, server := &scripted{do: do}, grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(server, s)
	go func() { _ = server.Serve(ln) }() // clients detect errors
	t.Cleanup(server.Stop)
	return s, ln.Addr().String()
}

func packed(t *testing.T, url string, m proto.Message) *anypb.Any {
	t.Helper()
	value, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return &anypb.Any{TypeUrl: url, Value: value}
}

// Responses that cannot be decoded are rejected, and a later valid one is applied.
func TestUndecodableResponses(t *testing.T) {
	t.Parallel()
	var text []byte
	for range 1000 { // nested descriptors
		text = append(protoHeader(4, len(text)), text...)
	}
	text = append(protoHeader(3, len(text)), text...)
	answers := []*anypb.Any{
		{TypeUrl: envoyxds.TypeURL, Value: []byte{0xff, 0xff}},
		{TypeUrl: envoyxds.TypeURL, Value: []byte("\x12\x02\xff\xff")}, // a domain that is not UTF-8
		{TypeUrl: envoyxds.TypeURL, Value: text},
		packed(t, "type.googleapis.com/envoy.service.discovery.v3.DiscoveryRequest", &discovery.DiscoveryRequest{}),
		packed(t, "", domain("untyped")),
		packed(t, envoyxds.TypeURL, domain("fine")),
	}
	got := make(chan *discovery.DiscoveryRequest, len(answers)+1)
	_, addr := serve(t, func(s discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
		for i := 0; ; i++ {
			r, err := s.Recv()
			if err != nil {
				return err
			}
			if got <- r; i >= len(answers) {
				continue
			}
			answer := &discovery.DiscoveryResponse{
				VersionInfo: "v", Nonce: string(rune('a' + i)), TypeUrl: envoyxds.TypeURL, Resources: answers[i : i+1],
			}
			if err := s.Send(answer); err != nil {
				return err
			}
		}
	})
	_, rules := subscribe(t, envoyxds.Options{Server: addr})
	eventually(t, "the valid one is applied", rules.is("fine"))
	<-got
	for i := range answers {
		r := <-got
		fine := i == len(answers)-1
		if (r.GetErrorDetail() == nil) != fine || r.GetResponseNonce() != string(rune('a'+i)) || !fine && r.GetVersionInfo() != "" {
			t.Errorf("response %d: got reply %v", i, r)
		}
		if code := r.GetErrorDetail().GetCode(); !fine && code != int32(codes.InvalidArgument) {
			t.Errorf("response %d: got code %d", i, code)
		}
	}
	if n := len(rules.refusals()); n != len(answers)-1 {
		t.Errorf("%d rejections, want %d: %q", n, len(answers)-1, rules.refusals())
	}
}

// protoHeader returns the header of an embedded message.
func protoHeader(field, length int) []byte {
	header := []byte{byte(field<<3 | 2)}
	for ; length >= 0x80; length >>= 7 {
		header = append(header, byte(length)|0x80)
	}
	return append(header, byte(length))
}

// After a stream ended, another is opened, with the configured delays.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error{
		"immediately": func(discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error { return nil },
		"with an error": func(discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
			return status.Error(codes.PermissionDenied, "no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, addr := serve(t, do)
			began := time.Now()
			var logged log
			opts := logged.options(addr)
			opts.BackoffInitial, opts.BackoffMax = 20*time.Millisecond, time.Hour // no stream is as long as BackoffMax
			client, rules := subscribe(t, opts)
			eventually(t, "five streams were opened", func() bool { return server.streams.Load() >= 5 })
			if least := (20 + 40 + 80 + 160) / 2 * time.Millisecond; time.Since(began) < least { // half: random
				t.Errorf("five streams within %v, want at least %v", time.Since(began), least)
			}
			if got, _ := rules.last(); got != "nothing" || client.State().Failures < 4 {
				t.Errorf("got %s after %d failures", got, client.State().Failures)
			}
			if n := logged.count("control plane unavailable"); n != 1 {
				t.Errorf("the log reports %d times that the control plane is unavailable, want once", n)
			}
		})
	}
}

// Delays between streams grow until a stream has a valid response; the next failure
// is then logged.
func TestBackoffReset(t *testing.T) {
	t.Parallel()
	began := make(chan time.Time, 10)
	var streams atomic.Int64
	_, addr := serve(t, func(s discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
		began <- time.Now()
		switch n := streams.Add(1); {
		case n < 5:
			return status.Error(codes.PermissionDenied, "no")
		case n > 5:
			<-s.Context().Done()
			return nil
		}
		if err := s.Send(&discovery.DiscoveryResponse{Resources: []*anypb.Any{packed(t, envoyxds.TypeURL, domain("good"))}}); err != nil {
			return err
		}
		for range 2 { // the client subscribes and acknowledges
			if _, err := s.Recv(); err != nil {
				return err
			}
		}
		return status.Error(codes.PermissionDenied, "no")
	})
	var logged log
	opts := logged.options(addr)
	opts.BackoffInitial, opts.BackoffMax = 100*time.Millisecond, 10*time.Second
	_, rules := subscribe(t, opts)
	var before time.Time
	for i := range 6 {
		eventually(t, "another stream begins", func() bool { return len(began) > 0 })
		now := <-began
		if least := 50 * time.Millisecond << i; i > 0 && i < 5 && now.Sub(before) < least {
			t.Errorf("stream %d began %v after the previous one, want at least %v", i, now.Sub(before), least)
		}
		before = now
	}
	if n := logged.count("retry_in=100ms"); n != 2 || logged.count("control plane unavailable") != 2 || !rules.is("good")() {
		t.Errorf("the log has retry_in=100ms %d times, want twice:\n%s", n, logged.String())
	}
}

// Run returns immediately when ctx ends during a delay.
func TestRunReturnsDuringBackoff(t *testing.T) {
	t.Parallel()
	client, err := envoyxds.New(new(rulesRecorder), &envoyxds.Options{Server: "127.0.0.1:1", ConnectRetry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); client.Run(ctx) }()
	eventually(t, "the client is waiting", func() bool { return client.State().Failures == 1 })
	cancel()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("Run did not return")
	}
}

// A server that accepts connections without responding, and one that refuses
// connections, do not block the end of Run.
func TestUnresponsiveServers(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback port
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	silent, _ := subscribe(t, envoyxds.Options{Server: ln.Addr().String()})
	closed, _ := subscribe(t, envoyxds.Options{Server: "127.0.0.1:1"})
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	eventually(t, "the connection is refused", func() bool { return closed.State().Failures > 2 })
	if silent.State().Connected || closed.State().Connected {
		t.Error("State reports a connection")
	}
}

// The client requires a valid server certificate and sends its own.
func TestTLS(t *testing.T) {
	t.Parallel()
	known := httptest.NewUnstartedServer(nil)
	known.StartTLS()
	known.Close()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	pair := known.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plane := controlplane.Start(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12})
	plane.Push("default", "1", domain("secret"))
	for name, c := range map[string]struct {
		tls  *tlsfiles.Files
		fine bool
	}{
		"valid":                 {&tlsfiles.Files{Cert: cert, Key: key, CA: cert}, true},
		"another valid name":    {&tlsfiles.Files{Cert: cert, Key: key, CA: cert, PeerName: "example.com"}, true},
		"wrong name":            {&tlsfiles.Files{Cert: cert, Key: key, CA: cert, PeerName: "other"}, false},
		"unknown CA":            {&tlsfiles.Files{Cert: cert, Key: key}, false},
		"no client certificate": {&tlsfiles.Files{CA: cert}, false},
		"plain text":            {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, rules := subscribe(t, envoyxds.Options{Server: plane.Addr(), TLS: c.tls})
			eventually(t, "the client connects or fails", func() bool { return rules.is("secret")() || client.State().Failures > 2 })
			if got := rules.is("secret")(); got != c.fine {
				t.Errorf("got a response: %v, want %v", got, c.fine)
			}
		})
	}
}

// A long reason is truncated.
func TestLongReason(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("default", "1", domain("bad "+strings.Repeat("ä", 10_000)))
	subscribe(t, envoyxds.Options{Server: plane.Addr()})
	eventually(t, "it is rejected", func() bool { return len(plane.Refusals()[""]) > 0 })
	if reason := plane.Refusals()[""][0]; len(reason) > 4<<10 || !strings.HasSuffix(reason, "ä") {
		t.Errorf("got %d bytes that end with %q", len(reason), reason[len(reason)-3:])
	}
}

// log records what a client logs.
type log struct{ testserver.Log }

// count returns how often a text occurs in the log.
func (l *log) count(what string) int {
	return strings.Count(l.String(), what)
}

func (l *log) options(server string) envoyxds.Options {
	return envoyxds.Options{Server: server, Log: slog.New(slog.NewTextHandler(l, nil))}
}

// answers starts a server that sends the n-th response after the n-th request of a
// stream, and counts requests.
func answers(t *testing.T, nth func(n int64) *discovery.DiscoveryResponse) (requests *atomic.Int64, addr string) {
	t.Helper()
	requests = new(atomic.Int64)
	_, addr = serve(t, func(s discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
		for {
			if _, err := s.Recv(); err != nil {
				return err
			}
			if err := s.Send(nth(requests.Add(1))); err != nil {
				return err
			}
		}
	})
	return requests, addr
}

// A response of an unsubscribed type is ignored and logged once; later responses are
// applied.
func TestUnsubscribedType(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, func(s discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
		for _, kind := range []string{"other", "another", ""} {
			if err := s.Send(&discovery.DiscoveryResponse{TypeUrl: kind, Resources: []*anypb.Any{packed(t, envoyxds.TypeURL, domain("of "+kind))}}); err != nil {
				return err
			}
		}
		<-s.Context().Done()
		return nil
	})
	var logged log
	client, rules := subscribe(t, logged.options(addr))
	eventually(t, "the subscribed resource is applied", rules.is("of "))
	if n := logged.count("unsubscribed type"); n != 1 || client.State().Failures != 0 || len(rules.refusals()) != 0 {
		t.Errorf("logged %d times, %d streams ended, rejections %q", n, client.State().Failures, rules.refusals())
	}
}

// Replies to a server that sends its configuration after each request are delayed.
func TestRepeatedResponses(t *testing.T) {
	t.Parallel()
	for name, nth := range map[string]func(n int64) *anypb.Any{
		"unchanged":                     func(int64) *anypb.Any { return packed(t, envoyxds.TypeURL, domain("good")) },
		"rejected":                      func(int64) *anypb.Any { return packed(t, envoyxds.TypeURL, domain("bad")) },
		"rejected, different each time": func(n int64) *anypb.Any { return packed(t, envoyxds.TypeURL, domain(fmt.Sprint("bad ", n))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, addr := answers(t, func(n int64) *discovery.DiscoveryResponse {
				version := fmt.Sprint(n)
				return &discovery.DiscoveryResponse{TypeUrl: envoyxds.TypeURL, VersionInfo: version, Nonce: version, Resources: []*anypb.Any{nth(n)}}
			})
			began := time.Now()
			_, rules := subscribe(t, envoyxds.Options{Server: addr})
			eventually(t, "five replies", func() bool { return requests.Load() >= 6 })
			if took := time.Since(began); took < 1500*time.Millisecond {
				t.Errorf("five replies within %v, want 1.5 s and more", took)
			}
			if _, uses := rules.last(); uses > 1 {
				t.Errorf("the same configuration was applied %d times", uses)
			}
		})
	}
}

// After a reconnect, an unchanged configuration is acknowledged but not applied again.
func TestUnchangedConfigurationAfterReconnect(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, nil)
	plane.Push("default", "1", domain("same"))
	_, rules := subscribe(t, envoyxds.Options{Server: plane.Addr()})
	eventually(t, "it is applied", rules.is("same"))
	plane.Down()
	plane.Up()
	plane.Push("default", "other", domain("same"))
	eventually(t, "it is acknowledged", func() bool {
		r := plane.Requests()
		return r[len(r)-1].GetVersionInfo() == "other" && r[len(r)-1].GetErrorDetail() == nil
	})
	if _, uses := rules.last(); uses != 1 {
		t.Errorf("applied %d times, want once", uses)
	}
}

// The log reports an unavailable control plane once, also if each error is different.
func TestUnavailableLoggedOnce(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback port
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset, whose error contains both ports
			conn.Close()
		}
	}()
	var logged log
	client, _ := subscribe(t, logged.options(ln.Addr().String()))
	eventually(t, "several connections failed", func() bool { return client.State().Failures > 8 })
	if n := logged.count("control plane unavailable"); n != 1 {
		t.Errorf("the log reports %d times that the control plane is unavailable, want once", n)
	}
}
