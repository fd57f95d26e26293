package rlsapi

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService is gRPC's, but for those who watch: they are let go once the server stops, which they would hold open otherwise.
type healthService struct {
	*health.Server
	stopping context.Context
}

// Watch tells of each change until the client, or the server, goes.
func (h *healthService) Watch(r *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.stopping, cancel)()
	err := h.Server.Watch(r, watcher{stream, ctx})
	if h.stopping.Err() != nil {
		return status.Error(codes.Unavailable, "the server stops")
	}
	return err
}

// watcher is a stream that ends with a context.
type watcher struct {
	grpc_health_v1.Health_WatchServer
	ctx context.Context
}

// Context is that with which the stream ends.
func (w watcher) Context() context.Context { return w.ctx }
