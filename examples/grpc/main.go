// Grpc limits calls both on the server and on the client. The server denies a call with
// RESOURCE_EXHAUSTED and a retry delay, and the client retries the call after that
// delay. The example uses gRPC's health checking service.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

// newServer returns a server that limits the calls of each client address to each
// method.
func newServer() (*grpc.Server, error) {
	// [snippet server]
	limit, err := grpclimit.NewServer(memstore.New(nil), nil, grpclimit.Charge{
		Policy: headgate.MustNamedPolicy("per-method", "10/1s burst 2"),
		Key:    grpclimit.Join(grpclimit.Method(), grpclimit.Address()),
	})
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	// [end server]
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	return server, nil
}

// dial returns a connection that sends at most 100 calls per second and retries denied
// calls after the delay that the server requests.
func dial(address string) (*grpc.ClientConn, error) {
	// [snippet client]
	limit, err := grpclimit.NewClient(memstore.New(nil), &grpclimit.ClientOptions{Retries: 3}, grpclimit.Charge{
		Policy: headgate.MustNamedPolicy("calls", "100/1s"),
	})
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(limit.Unary), grpc.WithChainStreamInterceptor(limit.Stream))
	// [end client]
}

func main() {
	server, err := newServer()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(server.Serve(listener)) }()
	conn, err := dial(listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	start := time.Now()
	for range 12 {
		resp, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		fmt.Println(time.Since(start).Round(time.Millisecond), resp.GetStatus(), err)
	}
}
