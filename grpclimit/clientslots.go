package grpclimit

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/turn"
)

// clientSlots are the open holds of a call in progress. nil has none.
type clientSlots struct {
	alive *headgate.KeepAlive
	holds []*headgate.Hold
	costs []int64
	once  sync.Once
}

// take opens a hold of cost slots, or returns [ErrNoSlot].
func (s *clientSlots) take(ctx context.Context, limiter *headgate.Limiter, key string, cost int64) error {
	h, err := limiter.Hold(ctx, key, cost, s.alive.TTL())
	if err != nil {
		return err
	}
	if !h.OK() {
		return ErrNoSlot
	}
	s.alive.Add(h)
	s.holds, s.costs = append(s.holds, h), append(s.costs, cost)
	return nil
}

// end makes the slots available; units of rates stay spent. Only the first call has an
// effect. After an error, a slot is available at its deadline.
func (s *clientSlots) end(ctx context.Context) {
	s.finish(ctx, func(ctx context.Context, h *headgate.Hold, cost int64) { _, _ = h.Commit(ctx, cost) })
}

// undo is like end for a call that was not sent: rates are corrected, too.
func (s *clientSlots) undo(ctx context.Context) {
	s.finish(ctx, func(ctx context.Context, h *headgate.Hold, _ int64) { _, _ = h.Cancel(ctx) })
}

func (s *clientSlots) finish(ctx context.Context, do func(context.Context, *headgate.Hold, int64)) {
	if s == nil {
		return
	}
	s.once.Do(func() {
		ctx, done := turn.Detached(ctx)
		defer done()
		for i, h := range s.holds {
			s.alive.Remove(h)
			do(ctx, h, s.costs[i])
		}
	})
}

// during makes the slots available when send has returned or panicked.
func (s *clientSlots) during(ctx context.Context, send func() error) error {
	defer s.end(ctx)
	return send()
}

// until returns a stream that makes the slots available when it has ended: RecvMsg
// returned an error or the only message, SendMsg or Header returned an error, or a
// context has ended.
func (s *clientSlots) until(ctx context.Context, stream grpc.ClientStream, desc *grpc.StreamDesc) grpc.ClientStream {
	if s == nil {
		return stream
	}
	stop := context.AfterFunc(ctx, func() { s.end(ctx) })
	return &slotStream{ClientStream: stream, one: !desc.ServerStreams, end: func() {
		stop()
		s.end(ctx)
	}}
}

// slotStream is a stream that holds slots.
type slotStream struct {
	grpc.ClientStream
	one bool // whether the server sends one message only
	end func()
}

// RecvMsg blocks until a message has arrived or the stream has ended.
func (s *slotStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.one {
		s.end()
	}
	return err
}

// SendMsg sends a message. An error other than io.EOF means that the stream has ended.
func (s *slotStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err != nil && err != io.EOF {
		s.end()
	}
	return err
}

// Header blocks until the server has sent the header. An error means that the stream has
// ended.
func (s *slotStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err != nil {
		s.end()
	}
	return md, err
}
