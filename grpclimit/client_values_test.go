package grpclimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/internal/mutation"
)

// newGuarded returns a server that denies every call, except calls with the metadata
// x-polite.
func newGuarded(t *testing.T) *testServer {
	t.Helper()
	isPolite := func(ctx context.Context) bool { return len(metadata.ValueFromIncomingContext(ctx, "x-polite")) > 0 }
	header := grpclimit.Metadata("x-api-key")
	w := serve(t, &service{}, newServer(t, nil,
		grpclimit.Charge{Policy: policy("all", "3/24h"), When: func(ctx context.Context, _ grpclimit.Call) bool { return !isPolite(ctx) }},
		grpclimit.Charge{Policy: policy("key", "1000000000/1m"), Key: grpclimit.First(header, grpclimit.Address())},
		grpclimit.Charge{Policy: policy("method", "1000000000/1m"), Key: grpclimit.Join(grpclimit.Method(), header)},
	))
	for range 3 {
		if _, err := w.client.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	w.service.calls.Store(0)
	return w
}

// call makes a call with metadata: name, value, …. It must be denied. The library of the
// client refuses to send some values, and the server rejects others.
func (w *testServer) call(fields ...string) error {
	ctx := metadata.AppendToOutgoingContext(context.Background(), fields...)
	_, err := w.client.EmptyCall(ctx, &pb.Empty{})
	switch code := status.Code(err); code {
	case codes.ResourceExhausted:
		return nil
	case codes.Internal: // refused by gRPC, on either side
		if text := err.Error(); strings.Contains(text, "header") || strings.Contains(text, "metadata") {
			return nil
		}
	case codes.InvalidArgument, codes.Unimplemented:
		return nil
	}
	return fmt.Errorf("%.500q: got %w", fields, err)
}

func (w *testServer) callPolitely() error {
	_, err := w.client.EmptyCall(metadata.AppendToOutgoingContext(context.Background(), "x-polite", "yes"), &pb.Empty{})
	return err
}

// TestClientInput: whatever a client over its limit sends, the handler does not run.
func TestClientInput(t *testing.T) {
	t.Parallel()
	w := newGuarded(t)
	pad := strings.Repeat("a", 60<<10)
	var many []string
	for i := range 2_000 {
		many = append(many, "x-api-key", fmt.Sprint(i))
	}
	for kind, all := range map[string][][]string{
		"long":      {{"x-api-key", pad}, {"x-other", strings.Repeat(pad, 10)}, {pad[:1000], "a"}},
		"binary":    {{"x-api-key-bin", "\x00\xff"}, {"x-api-key", "caf\xe9"}, {"x-api-key", "\x00"}, {"x-api-key", ""}},
		"many":      {many, {"x-api-key", "a", "x-api-key", "b"}, {"x-forwarded-for", "a", "x-forwarded-for", "127.0.0.1"}},
		"malformed": {{"grpc-timeout", "x"}, {"content-type", "x"}, {"te", "x"}, {":path", "/x"}, {"x-forwarded-for", "127.0.0.1"}, {"grpc-encoding", "x"}},
	} {
		t.Run(kind, func(t *testing.T) {
			for _, fields := range all {
				if err := w.call(fields...); err != nil {
					t.Error(err)
				}
			}
			if n := w.service.calls.Load(); n > 0 {
				t.Errorf("the handler was called %d times", n)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		stream, err := w.client.StreamingInputCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.callPolitely(); err != nil {
			t.Error(err)
		}
		if _, err := stream.CloseAndRecv(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v want ResourceExhausted", err)
		}
	})
}

// TestMutatedRequests: as TestClientInput, with mutated metadata.
func TestMutatedRequests(t *testing.T) {
	w := newGuarded(t)
	names := []string{
		"x-api-key", "x-api-key-bin", "x-forwarded-for", "grpc-timeout", "grpc-encoding", "grpc-previous-rpc-attempts", "user-agent", "authorization",
		"content-type", "te", "x-other",
	}
	(&mutation.Attack{
		Sender: func() func(*rand.Rand) error {
			return func(rng *rand.Rand) error {
				var fields []string
				for range 1 + rng.IntN(4) {
					fields = append(fields, names[rng.IntN(len(names))], mutation.Value(rng, "acme", "203.0.113.9", "1S"))
				}
				return w.call(fields...)
			}
		},
		Polite: w.callPolitely,
	}).Run(t)
}
