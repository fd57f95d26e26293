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

func TestServerSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	conn, err := grpc.NewClient(serve(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	// A slow machine makes room for one more each 100 ms, so some calls may pass beyond the first two.
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
				t.Errorf("RetryInfo says %v, want up to 100ms", wait)
			}
			return
		}
	}
	t.Errorf("no RetryInfo in %v", err)
}

func TestClientComesBack(t *testing.T) {
	t.Parallel()
	conn, err := dial(serve(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	for range 5 {
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	// Two at once, and three more at 10 a second.
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("five calls took %v, want 300ms or more", took)
	}
}
