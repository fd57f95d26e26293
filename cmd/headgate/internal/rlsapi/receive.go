package rlsapi

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// shortBytes is the size up to which a message is decoded without a reservation of
// memory. It is also the maximum for the methods of health checks and reflection.
const shortBytes = 16 << 10

// messageReader is the part of a gRPC stream that reads messages. The streams of package
// grpc have these methods, but its exported interface does not include them. They are
// needed to respond to a message that is too large: [grpc.ServerStream.RecvMsg] ends the
// call with an error, and Envoy admits the request.
type messageReader interface {
	ReadMessageHeader(header []byte) error // reads the 5 bytes in front of a message
	Read(n int) (mem.BufferSlice, error)   // reads exactly n bytes; the sender then may send as many
}

// authInfo adds the member of the set of connections to the information about a client.
type authInfo struct {
	credentials.AuthInfo
	handle *bounded.Conn
}

// serviceDesc describes the rate limit service with [Server.serveRequest] as its method.
// The method is registered as one that may receive several messages, so that package
// grpc does not read messages.
func (s *Server) serviceDesc() *grpc.ServiceDesc {
	desc := pb.RateLimitService_ServiceDesc
	desc.Streams = []grpc.StreamDesc{{StreamName: desc.Methods[0].MethodName, Handler: s.serveRequest, ClientStreams: true}}
	desc.Methods = nil
	return &desc
}

// serveRequest reads one request and sends its response. A request that is too large, or
// for which there is no memory, is denied as soon as its size is known.
func (s *Server) serveRequest(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	reader, ok := grpc.ServerTransportStreamFromContext(ctx).(messageReader)
	if !ok {
		return status.Error(codes.Internal, "streams of this version of package grpc are not supported")
	}
	size, err := readSize(reader)
	if err != nil {
		return err
	}
	resp, err := s.respond(ctx, reader, size)
	if err != nil {
		return err
	}
	return stream.SendMsg(resp)
}

// readSize reads the size of a message.
func readSize(reader messageReader) (int64, error) {
	var prefix [5]byte
	return sizeOf(prefix, reader.ReadMessageHeader(prefix[:]))
}

// sizeOf returns the size in the prefix of a message, which was read with an error or
// nil.
func sizeOf(prefix [5]byte, err error) (int64, error) {
	if err != nil {
		return 0, toReadError(err)
	}
	if prefix[0] != 0 {
		return 0, status.Error(codes.Unimplemented, "compressed messages are not supported")
	}
	return int64(binary.BigEndian.Uint32(prefix[1:])), nil
}

// respond returns the response to a request whose encoding has the given size.
func (s *Server) respond(ctx context.Context, reader messageReader, size int64) (*pb.RateLimitResponse, error) {
	if size > s.maxMessageBytes {
		return s.handler.deny(tooManyBytes)
	}
	if size > shortBytes {
		handle := handleOf(ctx)
		if !handle.Reserve(decodeFactor * size) {
			return s.handler.deny(noMemory)
		}
		defer handle.Grow(-decodeFactor * size)
	}
	data, err := reader.Read(int(size))
	if err != nil {
		return nil, toReadError(err)
	}
	req := new(pb.RateLimitRequest)
	err = newCodec().Unmarshal(data, req)
	data.Free()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "invalid request: %v", err)
	}
	return s.handler.ShouldRateLimit(ctx, req)
}

// handleOf returns the member of the set of connections that a request arrived on.
func handleOf(ctx context.Context) *bounded.Conn {
	p, _ := peer.FromContext(ctx)
	return p.AuthInfo.(authInfo).handle
}

// toReadError converts an error of a [messageReader] to the error of the call.
func toReadError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return status.Error(codes.Internal, "the call ended without a complete message")
	}
	return err
}
