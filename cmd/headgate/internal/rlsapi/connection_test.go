package rlsapi_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// The parts of HTTP/2 that the tests send.
const (
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // with empty settings
	noWindow = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00"

	dataFrame, headersFrame               = 0, 1
	endStream, endHeaders, withoutHeaders = 1, 4, 0

	completeMessage = "\x00\x00\x00\x00\x0d\x0a\x01d\x12\x08\x0a\x06\x0a\x01k\x12\x01v" // domain d, one entry
	rateLimitMethod = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
)

// frame encodes a frame of HTTP/2.
func frame(kind, flags byte, id uint32, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}) + payload
}

// fields encodes the header fields of a request (RFC 7541, literals that are not
// indexed).
func fields(method string) string {
	var b strings.Builder
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "h"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		b.WriteByte(0)
		for _, text := range field {
			b.WriteString(string([]byte{byte(len(text))}) + text)
		}
	}
	return b.String()
}

func headers(id uint32) string {
	return frame(headersFrame, endHeaders, id, fields(rateLimitMethod))
}

// rawConn returns a connection on which text was sent. It discards the bytes that the
// server sends, and closes ended at the end of the connection.
func rawConn(t *testing.T, addr, text string) (conn net.Conn, ended chan struct{}) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	ended = make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, conn) }()
	return conn, ended
}

// mustEnd waits until a connection has ended.
func mustEnd(t *testing.T, what string, ended chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Errorf("%s: the connection is still open", what)
	}
}

// A client that leaves a frame or a request unfinished, or does not read its response,
// is disconnected. Streams that are open without anything unfinished stay open.
func TestUnfinishedRequestsEnd(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	addr, _ := serve(t, open(t, nil, smallConfig, nil), &rlsapi.ServerOptions{ReadTimeout: timeout, WriteTimeout: timeout})
	conn := connect(t, addr)
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	list := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
	reflection, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func() {
		t.Helper()
		if err := reflection.Send(list); err != nil {
			t.Fatal(err)
		}
		if _, err := reflection.Recv(); err != nil {
			t.Fatalf("a stream that is open without an unfinished message: %v", err)
		}
	}
	ask()
	message := "\x00\x00\x00\x00\x10half"
	complete := frame(dataFrame, endStream, 1, completeMessage)
	for name, text := range map[string]string{
		"frame header":             preface + "\x00\x00",
		"settings":                 preface + frame(4, 0, 0, "123456")[:12],
		"frame":                    preface + headers(1) + frame(dataFrame, 0, 1, message)[:12],
		"block of fields":          preface + frame(headersFrame, withoutHeaders, 1, fields(rateLimitMethod)),
		"no message":               preface + headers(1),
		"prefix of a message":      preface + headers(1) + frame(dataFrame, 0, 1, message[:4]),
		"message":                  preface + headers(1) + frame(dataFrame, 0, 1, message),
		"message after a complete": preface + headers(1) + complete + headers(3) + frame(dataFrame, 0, 3, message),
		"response":                 noWindow + headers(1) + complete,
	} {
		_, ended := rawConn(t, addr, text)
		mustEnd(t, name, ended)
	}
	ask()
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

// A message that drips is ended, although each of its frames is complete.
func TestDrippingMessageEnds(t *testing.T) {
	t.Parallel()
	addr, _ := serve(t, open(t, nil, smallConfig, nil), &rlsapi.ServerOptions{ReadTimeout: 100 * time.Millisecond})
	conn, ended := rawConn(t, addr, preface+headers(1)+frame(dataFrame, 0, 1, "\x00\x00\x00\x10\x00"))
	drip := time.NewTicker(5 * time.Millisecond)
	defer drip.Stop()
	for late := time.After(30 * time.Second); ; {
		select {
		case <-drip.C:
			_, _ = io.WriteString(conn, frame(dataFrame, 0, 1, "x"))
			continue
		case <-ended:
		case <-late:
			t.Error("the connection is still open")
		}
		return
	}
}

// The memory of unfinished requests is bounded for all connections together, and a
// client with complete requests is served at any time. Long unfinished requests
// are denied, and short ones make their connections end.
func TestMemoryOfUnfinishedRequests(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{"short": "\x00\x00\x00\x3e\x80", "long": "\x00\x00\x00\xf0\x00"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 8 << 20
			addr, server := serve(t, open(t, nil, smallConfig, nil), &rlsapi.ServerOptions{MaxMemoryBytes: most, ReadTimeout: time.Hour, MaxMessageBytes: 1 << 20})
			good := pb.NewRateLimitServiceClient(connect(t, addr))
			for range 20 {
				conn, _ := rawConn(t, addr, preface)
				for id := uint32(1); id < 40; id += 2 {
					if _, err := io.WriteString(conn, headers(id)+frame(dataFrame, 0, id, prefix+strings.Repeat("x", 15_000))); err != nil {
						break
					}
				}
				if _, err := good.ShouldRateLimit(t.Context(), request("d", "k", "v")); err != nil {
					t.Fatalf("a complete request: %v", err)
				}
				if n, _ := rlsapi.Memory(server); n > most+256<<10 { // with the change that is being made
					t.Fatalf("the connections hold %d bytes, want at most %d", n, most)
				}
			}
			if _, closed := rlsapi.Memory(server); closed == 0 && name == "short" {
				t.Error("no connection was closed")
			}
		})
	}
}

// Connections without a request make room for others, also if they answer pings.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	addr, server := serve(t, open(t, nil, smallConfig, nil), &rlsapi.ServerOptions{MaxConnections: 3})
	idle := pb.NewRateLimitServiceClient(connect(t, addr))
	if _, err := idle.ShouldRateLimit(t.Context(), request("d", "k", "v")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		rawConn(t, addr, preface)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if _, err := pb.NewRateLimitServiceClient(connect(t, addr)).ShouldRateLimit(ctx, request("d", "k", "v"), grpc.WaitForReady(true)); err != nil {
			t.Errorf("a new client: %v", err)
		}
		cancel()
	}
	if _, closed := rlsapi.Memory(server); closed != 3 {
		t.Errorf("%d connections were closed to make room, want 3", closed)
	}
}

// A client of a proxy that sends many requests does not make the proxy's connection end:
// requests wait for memory.
func TestRequestsWaitForMemory(t *testing.T) {
	t.Parallel()
	addr, server := serve(t, open(t, nil, smallConfig, nil), &rlsapi.ServerOptions{MaxMemoryBytes: 2 << 20})
	proxy := pb.NewRateLimitServiceClient(connect(t, addr))
	var all sync.WaitGroup
	for range 100 { // 4 MB until they are complete, and 8 MB while they are processed
		all.Go(func() {
			if _, err := proxy.ShouldRateLimit(t.Context(), request("d", "k", strings.Repeat("v", 16_000))); err != nil {
				t.Errorf("a request: %v", err)
			}
		})
	}
	all.Wait()
	if _, closed := rlsapi.Memory(server); closed > 0 {
		t.Errorf("%d connections were closed", closed)
	}
}
