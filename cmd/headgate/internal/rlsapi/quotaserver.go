package rlsapi

import (
	"errors"
	"io"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// quotaServiceDesc describes the rate limit quota service with [Server.serveQuotaStream]
// as its method.
func (s *Server) quotaServiceDesc() *grpc.ServiceDesc {
	desc := pb.RateLimitQuotaService_ServiceDesc
	desc.HandlerType = nil
	desc.Streams = []grpc.StreamDesc{{StreamName: desc.Streams[0].StreamName, Handler: s.serveQuotaStream, ServerStreams: true, ClientStreams: true}}
	return &desc
}

func (s *Server) serveQuotaStream(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	reader, ok := grpc.ServerTransportStreamFromContext(ctx).(messageReader)
	if !ok {
		return status.Error(codes.Internal, "streams of this version of package grpc are not supported")
	}
	handle := handleOf(ctx)
	read := func() (*quotaReport, error) { return s.readReport(reader, handle) }
	write := func(r *pb.RateLimitQuotaResponse) error { return stream.SendMsg(r) }
	return s.handler.serveQuotas(ctx, s.stopping, read, write)
}

// memoryHandle is the part of a connection that long messages need.
type memoryHandle interface {
	Reserve(n int64) bool
	Grow(n int64) bool
}

// readReport reads one report. The error is [io.EOF] at the end of the stream.
func (s *Server) readReport(reader messageReader, handle memoryHandle) (*quotaReport, error) {
	var prefix [5]byte
	err := reader.ReadMessageHeader(prefix[:])
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	size, err := sizeOf(prefix, err)
	if err != nil {
		return nil, err
	}
	if size > s.maxMessageBytes {
		return nil, status.Errorf(codes.ResourceExhausted, "the report has %d bytes; must be at most %d: increase grpc.max_message_bytes, or use fewer buckets", size, s.maxMessageBytes)
	}
	if size > shortBytes {
		if !handle.Reserve(decodeFactor * size) {
			return nil, status.Error(codes.ResourceExhausted, "there is no memory for a long report; increase grpc.max_memory_bytes, or use fewer buckets")
		}
		defer handle.Grow(-decodeFactor * size)
	}
	data, err := reader.Read(int(size))
	if err != nil {
		return nil, toReadError(err)
	}
	defer data.Free()
	return decodeReport(data.Materialize())
}
