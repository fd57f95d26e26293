package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// heldStream is a stream with holds. It ends them when the stream has ended: RecvMsg
// returned an error or the only message, SendMsg or Header returned an error, gRPC has
// finished the stream, or a context has ended.
type heldStream struct {
	grpc.ClientStream
	ctx   context.Context // the context with which the stream was opened
	holds *clientHolds
	one   bool        // whether the server sends one message only
	stop  func() bool // stops waiting for the end of ctx

	mu        sync.Mutex
	out       Response
	receiving bool // whether RecvMsg is in progress
}

func newHeldStream(ctx context.Context, call Call, holds *clientHolds, desc *grpc.StreamDesc) *heldStream {
	return &heldStream{ctx: ctx, holds: holds, one: !desc.ServerStreams, out: unfinished(call)}
}

// opened sets the stream of gRPC after it was opened.
func (s *heldStream) opened(stream grpc.ClientStream) {
	s.ClientStream = stream
	s.stop = context.AfterFunc(s.ctx, func() { s.finished(s.ctx.Err()) })
}

// RecvMsg blocks until a message has arrived or the stream has ended.
func (s *heldStream) RecvMsg(m any) error {
	s.setReceiving(true)
	err := s.ClientStream.RecvMsg(m)
	if s.setReceiving(false); err == nil {
		s.mu.Lock()
		s.out.Responses++
		s.out.Message = m
		s.mu.Unlock()
	}
	if err != nil || s.one {
		s.stop()
		s.end(err)
	}
	return err
}

func (s *heldStream) setReceiving(receiving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiving = receiving
}

// SendMsg sends a message. An error other than io.EOF means that the stream has ended.
func (s *heldStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	switch {
	case err == nil:
		s.mu.Lock()
		s.out.Requests++
		s.mu.Unlock()
	case !errors.Is(err, io.EOF):
		s.stop()
		s.end(err)
	}
	return err
}

// Header blocks until the server has sent the header. An error means that the stream has
// ended.
func (s *heldStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err != nil {
		s.stop()
		s.end(err)
	}
	return md, err
}

// finished ends the holds of a stream that ended outside of its methods. If RecvMsg is in
// progress, it has a message or the error, and ends the holds itself.
func (s *heldStream) finished(err error) {
	s.mu.Lock()
	receiving := s.receiving
	s.mu.Unlock()
	if !receiving {
		s.end(err)
	}
}

// end ends the holds of a stream that has ended with an error or with io.EOF.
func (s *heldStream) end(err error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s.holds.end(s.ctx, func() Response {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.out.finish(err)
		return s.out
	})
}

// abandon ends the holds if the stream could not be opened. err is nil if the function
// that opens it has panicked.
func (s *heldStream) abandon(err error) {
	s.holds.end(s.ctx, func() Response {
		if err != nil {
			s.out.finish(err)
		}
		return s.out
	})
}
