package main

import (
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func serve(t *testing.T) (address string) {
	t.Helper()
	server, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func TestServerDenialHasRetryInfo(t *testing.T) {
	t.Parallel()
	conn, err := grpc.NewClient(serve(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	// One unit refills every 100 ms, so on a slow machine more than two calls may be
	// allowed.
	for range 50 {
		_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			break
		}
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("got %v, want %v", err, codes.ResourceExhausted)
	}
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			if wait := retry.GetRetryDelay().AsDuration(); wait <= 0 || wait > 100*time.Millisecond {
				t.Errorf("RetryInfo is %v, want up to 100ms", wait)
			}
			return
		}
	}
	t.Errorf("no RetryInfo in %v", err)
}

func TestClientRetriesAfterDelay(t *testing.T) {
	t.Parallel()
	conn, err := dial(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start := time.Now()
	for range 5 {
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	// Two calls immediately, and three more at 10 per second.
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("five calls took %v, want 300ms or more", took)
	}
}
