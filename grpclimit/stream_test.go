package grpclimit_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/grpclimit"
)

var message = &pb.StreamingOutputCallRequest{}

// echo sends n messages and reads all responses.
func (w *testServer) echo(ctx context.Context, n int) (responses int, stream pb.TestService_FullDuplexCallClient, err error) {
	stream, err = w.client.FullDuplexCall(ctx)
	if err != nil {
		return 0, nil, err
	}
	for range n {
		if stream.Send(message) != nil {
			break // Recv returns the error
		}
	}
	stream.CloseSend()
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return responses, stream, nil
		} else if err != nil {
			return responses, stream, err
		}
		responses++
	}
}

func TestStreamCharge(t *testing.T) {
	t.Parallel()
	w := serve(t, &service{}, newServer(t, nil, globalCharge(policy("streams", "2/1h"))))
	for i := range 2 {
		n, stream, err := w.echo(t.Context(), 5)
		mustCode(t, "within the limit", err, codes.OK)
		if header, _ := stream.Header(); n != 5 || item(t, header, "ratelimit", "streams", "r") != int64(1-i) {
			t.Errorf("got %d responses, header %v want 5 and the remaining units", n, header)
		}
	}
	_, stream, err := w.echo(t.Context(), 5)
	mustCode(t, "above the limit", err, codes.ResourceExhausted)
	if retry, quota := details(err); retry.GetRetryDelay().AsDuration() < 29*time.Minute || len(quota.GetViolations()) != 1 {
		t.Errorf("got details %v, %v", retry, quota)
	}
	if r := item(t, stream.Trailer(), "ratelimit", "streams", "r"); r != int64(0) {
		t.Errorf("ratelimit: got r %v want 0", r)
	}
	if got := w.service.calls.Load(); got != 2 {
		t.Errorf("the handler ran %d times want 2", got)
	}
}

// The fields are in the header or in the trailer, depending on what the handler does,
// and only once.
func TestStreamFields(t *testing.T) {
	t.Parallel()
	s := &service{}
	w := serve(t, s, newServer(t, nil, globalCharge(policy("streams", "99/1h"))), withRetryPolicy("ABORTED"))
	for _, c := range []struct {
		name    string
		duplex  func(pb.TestService_FullDuplexCallServer) error
		trailer bool
		want    codes.Code
	}{
		{"header sent by the handler", func(s pb.TestService_FullDuplexCallServer) error { return s.SendHeader(nil) }, false, codes.OK},
		{"a message, then an error", func(s pb.TestService_FullDuplexCallServer) error {
			s.Send(&pb.StreamingOutputCallResponse{})
			return status.Error(codes.DataLoss, "")
		}, false, codes.DataLoss},
		{"an error only", func(pb.TestService_FullDuplexCallServer) error { return status.Error(codes.DataLoss, "") }, true, codes.DataLoss},
		{"no message", func(pb.TestService_FullDuplexCallServer) error { return nil }, false, codes.OK},
		{"retried error", func(pb.TestService_FullDuplexCallServer) error {
			if s.calls.Load() < 6 {
				return status.Error(codes.Aborted, "")
			}
			return nil
		}, false, codes.OK},
	} {
		s.duplex = c.duplex
		_, stream, err := w.echo(t.Context(), 0)
		mustCode(t, c.name, err, c.want)
		header, _ := stream.Header()
		md, other := header, stream.Trailer()
		if c.trailer {
			md, other = other, md
		}
		if n := len(md.Get("ratelimit")); n != 1 || len(other.Get("ratelimit")) != 0 {
			t.Errorf("%s: got header %v, trailer %v want the fields once", c.name, header, stream.Trailer())
		}
	}
}

func perMessage(c grpclimit.Charge) grpclimit.Charge {
	c.PerMessage = true
	return c
}

func TestMessageCharge(t *testing.T) {
	t.Parallel()
	weight := perMessage(globalCharge(policy("weight", "10/1h")))
	weight.Cost = func(_ context.Context, c grpclimit.Call) int64 {
		if _, ok := c.Message.(*pb.StreamingOutputCallRequest); ok != c.Stream {
			t.Errorf("charged for %T", c.Message)
		}
		return 4
	}
	w := serve(t, &service{}, newServer(t, nil, globalCharge(policy("streams", "2/1h")), weight))
	n, stream, err := w.echo(t.Context(), 2)
	mustCode(t, "8 of 10", err, codes.OK)
	if header, _ := stream.Header(); n != 2 || len(header.Get("ratelimit")) != 1 || item(t, header, "ratelimit", "streams", "r") != int64(1) {
		t.Errorf("got %d responses, header %v want 2 and the fields of the opening", n, header)
	}
	n, stream, err = w.echo(t.Context(), 1)
	mustCode(t, "4 of 2", err, codes.ResourceExhausted)
	_, quota := details(err)
	if v := quota.GetViolations(); n != 0 || len(v) != 1 || v[0].GetSubject() != "weight" {
		t.Errorf("got %d responses, %v want none because of weight", n, quota)
	}
	if r := item(t, stream.Trailer(), "ratelimit", "weight", "r"); r != int64(2) || len(stream.Trailer().Get("ratelimit")) != 1 {
		t.Errorf("got trailer %v want the fields of weight", stream.Trailer())
	}
	// A unary call is one message, and all charges apply to it.
	_, _, err = w.empty(t.Context())
	_, quota = details(err)
	if len(quota.GetViolations()) != 2 {
		t.Errorf("unary: got %v want both policies", quota)
	}
}

// If a message is denied after the header was sent, the denial is in the status only:
// the IETF draft forbids its fields in trailers.
func TestDeniedMessageAfterHeader(t *testing.T) {
	t.Parallel()
	w := serve(t, &service{}, newServer(t, nil, perMessage(globalCharge(policy("messages", "1/1h")))))
	n, stream, err := w.echo(t.Context(), 2)
	mustCode(t, "the second message", err, codes.ResourceExhausted)
	if retry, quota := details(err); retry == nil || len(quota.GetViolations()) != 1 || n != 1 || len(stream.Trailer().Get("ratelimit")) != 0 {
		t.Errorf("got %d responses, %v, %v, trailer %v want 1, details and no fields", n, retry, quota, stream.Trailer())
	}
}

// A handler that ignores the error receives no further message, not even one that would
// be allowed.
func TestDeniedMessageStopsReceiving(t *testing.T) {
	t.Parallel()
	received, charged := 0, int64(0)
	messages := perMessage(globalCharge(policy("messages", "4/1h")))
	messages.Cost = func(context.Context, grpclimit.Call) int64 {
		charged++
		return []int64{0, 1, 2, 2, 1}[charged]
	}
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
		for range 5 {
			if _, err := stream.Recv(); err == nil {
				received++
				stream.Send(&pb.StreamingOutputCallResponse{})
			}
		}
		return nil
	}}
	w := serve(t, s, newServer(t, nil, messages))
	n, _, err := w.echo(t.Context(), 4)
	mustCode(t, "handler that ignores the error", err, codes.OK)
	if n != 2 || received != 2 || charged != 3 {
		t.Errorf("got %d responses, %d received, %d charged want 2, 2, 3", n, received, charged)
	}
}

// A queue for messages only slows the stream down.
func TestQueueDelaysMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, &service{}, newServer(t, nil, perMessage(globalCharge(leaky("messages", "1/1s queue 1")))))
		defer w.stop()
		var n int
		took, err := timed(func() (err error) { n, _, err = w.echo(t.Context(), 4); return err })
		mustCode(t, "four messages", err, codes.OK)
		if n != 4 || took != 3*time.Second {
			t.Errorf("got %d responses after %v want 4 after 3s", n, took)
		}
	})
}
