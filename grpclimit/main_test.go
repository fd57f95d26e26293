package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/memstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// service implements gRPC's test service. Without unary and duplex it responds
// immediately.
type service struct {
	pb.UnimplementedTestServiceServer
	calls  atomic.Int64
	unary  func(ctx context.Context) error
	duplex func(stream pb.TestService_FullDuplexCallServer) error
}

func (s *service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	s.calls.Add(1)
	if s.unary != nil {
		if err := s.unary(ctx); err != nil {
			return nil, err
		}
	}
	return &pb.Empty{}, nil
}

// UnaryCall responds with an empty message.
func (s *service) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.calls.Add(1)
	return &pb.SimpleResponse{}, nil
}

// StreamingInputCall responds with the number of messages received.
func (s *service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	for n := int32(0); ; n++ {
		if _, err := stream.Recv(); err != nil {
			// io.EOF
			if stream.Context().Err() == nil && status.Code(err) == codes.Unknown {
				return stream.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
			}
			return err
		}
		s.calls.Add(1)
	}
}

// FullDuplexCall responds to each message with one message.
func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	if s.duplex != nil {
		return s.duplex(stream)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) == codes.Unknown { // io.EOF
				return nil
			}
			return err
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// testServer is a server and an in-memory connection to it.
type testServer struct {
	service *service
	client  pb.TestServiceClient
	conn    *grpc.ClientConn
	server  *grpc.Server
	wire    *bufconn.Listener
}

// serve starts a server that is stopped at the end of the test. Tests in a synctest
// bubble must call stop themselves, because all goroutines of the bubble must end
// first.
func serve(t testing.TB, s *service, limit *grpclimit.Server, dial ...grpc.DialOption) *testServer {
	t.Helper()
	var opts []grpc.ServerOption
	if limit != nil {
		opts = append(opts, grpc.ChainUnaryInterceptor(recoverInterceptor, limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	}
	w := &testServer{service: s, server: grpc.NewServer(opts...), wire: bufconn.Listen(1 << 20)}
	pb.RegisterTestServiceServer(w.server, s)
	go w.server.Serve(w.wire)
	w.conn = w.dial(t, dial...)
	w.client = pb.NewTestServiceClient(w.conn)
	t.Cleanup(w.stop)
	return w
}

func (w *testServer) dial(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///memory", append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return w.wire.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func (w *testServer) stop() {
	w.conn.Close()
	w.server.Stop()
	w.wire.Close()
}

// recoverInterceptor recovers from panics, as many servers do.
func recoverInterceptor(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "panicked")
		}
	}()
	return handler(ctx, req)
}

// policy returns a token bucket policy with a name.
func policy(name string, limits ...string) headgate.Policy {
	p := headgate.MustPolicy(limits...)
	p.Name = name
	return p
}

func leaky(name, limit string) headgate.Policy {
	p := policy(name, limit)
	p.Algorithm = headgate.LeakyBucket
	return p
}

func newServer(t testing.TB, opts *grpclimit.Options, charges ...grpclimit.Charge) *grpclimit.Server {
	t.Helper()
	s, err := grpclimit.NewServer(memstore.New(nil), opts, charges...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newClient(t testing.TB, opts *grpclimit.ClientOptions, charges ...grpclimit.Charge) *grpclimit.Client {
	t.Helper()
	c, err := grpclimit.NewClient(memstore.New(nil), opts, charges...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// globalCharge returns a charge with one budget for all calls.
func globalCharge(p headgate.Policy) grpclimit.Charge {
	return grpclimit.Charge{Policy: p, Key: grpclimit.Global()}
}

// empty makes an EmptyCall and returns its metadata.
func (w *testServer) empty(ctx context.Context) (header, trailer metadata.MD, err error) {
	_, err = w.client.EmptyCall(ctx, &pb.Empty{}, grpc.Header(&header), grpc.Trailer(&trailer))
	return header, trailer, err
}

func mustCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("%s: got %v, %v want %v", what, got, err, want)
	}
}

// details returns the details of an error, nil if missing.
func details(err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	return retry, quota
}

// item returns a parameter of the named item of a structured field.
func item(t *testing.T, md metadata.MD, field, name, param string) any {
	t.Helper()
	list, err := httpsfv.UnmarshalList(md.Get(field))
	if err != nil {
		t.Fatalf("%s %q: %v", field, md.Get(field), err)
	}
	for _, member := range list {
		if it, ok := member.(httpsfv.Item); ok && it.Value == name {
			value, _ := it.Params.Get(param)
			return value
		}
	}
	t.Fatalf("%s %q: no %q in it", field, md.Get(field), name)
	return nil
}

// eventRecorder is an observer that records events.
type eventRecorder struct {
	mu     sync.Mutex
	events []headgate.Event
}

func (o *eventRecorder) Observe(e headgate.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *eventRecorder) all() []headgate.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]headgate.Event(nil), o.events...)
}

func timed(f func() error) (time.Duration, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin), err
}

var errBroken = errors.New("broken")

// isErr is errors.Is that also accepts nil as the target.
func isErr(err, want error) bool {
	return want == nil && err == nil || want != nil && errors.Is(err, want)
}
