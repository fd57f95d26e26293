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

// memoryHandle is the part of a connection that counts its memory.
type memoryHandle interface {
	Reserve(n int64) bool
	Grow(n int64) bool
}

// readReport reads one report, whose memory is reserved until [quotaReport.free]. The
// error is [io.EOF] at the end of the stream.
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
	release, ok := reserve(handle, decodeFactor*size, size > shortBytes)
	if !ok {
		return nil, status.Error(codes.ResourceExhausted, "there is no memory for a report; increase grpc.max_memory_bytes, or use fewer buckets")
	}
	report, err := s.readBody(reader, int(size))
	if err != nil {
		release()
		return nil, err
	}
	report.release = release
	return report, nil
}

// reserve reports n bytes that are in use until release is called. ok is false if there
// is no memory.
func reserve(handle memoryHandle, n int64, long bool) (release func(), ok bool) {
	release = func() { handle.Grow(-n) }
	if long {
		return release, handle.Reserve(n)
	}
	if !handle.Grow(n) {
		release()
		return nil, false
	}
	return release, true
}

// readBody reads and decodes a report of the given size.
func (s *Server) readBody(reader messageReader, size int) (*quotaReport, error) {
	data, err := reader.Read(size)
	if err != nil {
		return nil, toReadError(err)
	}
	defer data.Free()
	return decodeReport(data.Materialize())
}
