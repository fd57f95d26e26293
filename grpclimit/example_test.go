package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

func ExampleNewServer() {
	perClient := headgate.MustNamedPolicy("per-client", "2/1h")
	limit, err := grpclimit.NewServer(memstore.New(nil), &grpclimit.Options{Skip: grpclimit.HealthOrReflection},
		grpclimit.Charge{Policy: perClient}) // the default Key is Address
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	pb.RegisterTestServiceServer(server, &service{})
	client, stop := run(server)
	defer stop()

	for range 3 {
		var header metadata.MD
		_, err := client.EmptyCall(context.Background(), &pb.Empty{}, grpc.Header(&header))
		retry, quota := details(err)
		fmt.Println(status.Code(err), header.Get("ratelimit"))
		for _, v := range quota.GetViolations() {
			fmt.Println(v.GetSubject(), v.GetDescription(), retry.GetRetryDelay().AsDuration().Round(time.Minute))
		}
	}
	// Output:
	// OK ["per-client";r=1;t=1800]
	// OK ["per-client";r=0;t=1800]
	// ResourceExhausted []
	// per-client limit exceeded: 2/h 30m0s
}

// A limit for each user and method, with the user that authentication has stored in the
// context, and a limit for all users together.
func ExampleJoin() {
	user := grpclimit.Func(func(ctx context.Context) (string, bool) {
		name, ok := ctx.Value(userKey{}).(string)
		return name, ok
	})
	perUser := headgate.MustPolicy("1/1h")
	perUser.Name = "per-user"
	all := headgate.MustPolicy("100/1h")
	all.Name = "all"
	limit, err := grpclimit.NewServer(memstore.New(nil), nil,
		grpclimit.Charge{Policy: perUser, Key: grpclimit.Join(grpclimit.Method(), grpclimit.First(user, grpclimit.Address()))},
		grpclimit.Charge{Policy: all, Key: grpclimit.Global()})
	if err != nil {
		panic(err)
	}
	authenticate := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if user := metadata.ValueFromIncomingContext(ctx, "user"); len(user) > 0 {
			ctx = context.WithValue(ctx, userKey{}, user[0])
		}
		return next(ctx, req)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate, limit.Unary))
	pb.RegisterTestServiceServer(server, &service{})
	client, stop := run(server)
	defer stop()

	for _, user := range []string{"ann", "ben", "ann"} {
		_, err := client.EmptyCall(metadata.AppendToOutgoingContext(context.Background(), "user", user), &pb.Empty{})
		fmt.Println(user, status.Code(err))
	}
	_, err = client.UnaryCall(metadata.AppendToOutgoingContext(context.Background(), "user", "ann"), &pb.SimpleRequest{})
	fmt.Println("ann, another method:", status.Code(err))
	// Output:
	// ann OK
	// ben OK
	// ann ResourceExhausted
	// ann, another method: OK
}

type userKey struct{}

// A client limits its calls, and retries after the delay that the server requests.
func ExampleNewClient() {
	limit, err := grpclimit.NewClient(memstore.New(nil), &grpclimit.ClientOptions{Retries: 3},
		grpclimit.Charge{Policy: headgate.MustPolicy("1/200ms")})
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	pb.RegisterTestServiceServer(server, &service{})
	client, stop := run(server, grpc.WithChainUnaryInterceptor(limit.Unary), grpc.WithChainStreamInterceptor(limit.Stream))
	defer stop()

	begin := time.Now()
	for range 2 {
		if _, err := client.EmptyCall(context.Background(), &pb.Empty{}); err != nil {
			panic(err)
		}
	}
	fmt.Println("took 200 ms or more:", time.Since(begin) >= 200*time.Millisecond)

	shortCtx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = client.EmptyCall(shortCtx, &pb.Empty{})
	fmt.Println(status.Code(err) == codes.ResourceExhausted, errors.Is(err, headgate.ErrWouldExceedDeadline))
	// Output:
	// took 200 ms or more: true
	// true true
}

// A call is charged for the messages that it has sent. Its number is known only at the
// end of the stream.
func ExampleCharge_adjustCost() {
	store := memstore.New(nil)
	messages := headgate.MustNamedPolicy("messages", "1000/1h")
	// [snippet adjustcost]
	limit, err := grpclimit.NewServer(store, nil, grpclimit.Charge{
		Policy: messages, // for example 1000/1h
		Key:    grpclimit.Method(),
		Cost:   func(context.Context, grpclimit.Call) int64 { return 100 }, // the highest likely cost
		AdjustCost: func(_ context.Context, r grpclimit.Response) int64 {
			if r.Code != codes.OK {
				return r.Charged
			}
			return r.Responses
		},
	})
	// [end adjustcost]
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	pb.RegisterTestServiceServer(server, &service{})
	client, stop := run(server)
	w := &testServer{client: client}
	sent, _, err := w.echo(context.Background(), 7)
	fmt.Println(sent, "messages,", err)
	stop()

	limiter, err := headgate.New(store, messages, nil)
	if err != nil {
		panic(err)
	}
	left, err := limiter.PeekN(context.Background(), pb.TestService_FullDuplexCall_FullMethodName, 0)
	fmt.Println(left.Remaining, err)
	// Output:
	// 7 messages, <nil>
	// 993 <nil>
}

// run starts a server on loopback and connects a client.
func run(server *grpc.Server, opts ...grpc.DialOption) (client pb.TestServiceClient, stop func()) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go server.Serve(socket)
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(socket.Addr().String(), opts...)
	if err != nil {
		panic(err)
	}
	return pb.NewTestServiceClient(conn), func() {
		conn.Close()
		server.Stop()
	}
}
