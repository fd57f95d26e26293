package load

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// grpcClient calls Envoy's rate limit service on one connection.
type grpcClient struct {
	conn          *grpc.ClientConn
	service       pb.RateLimitServiceClient
	domain, entry string
}

func openGRPC(u *url.URL, opts *Options) func(context.Context) (client, error) {
	trust := insecure.NewCredentials()
	if u.Scheme == "grpcs" {
		trust = credentials.NewTLS(opts.clientTLS(u.Hostname()))
	}
	return func(context.Context) (client, error) {
		conn, err := grpc.NewClient("passthrough:///"+u.Host, grpc.WithTransportCredentials(trust))
		if err != nil {
			return nil, err
		}
		return &grpcClient{conn, pb.NewRateLimitServiceClient(conn), opts.Domain, opts.Entry}, nil
	}
}

// check makes one call for each key. The calls are concurrent, each on its own HTTP/2
// stream.
func (c *grpcClient) check(ctx context.Context, keys []string) (allowed int, err error) {
	if len(keys) == 1 {
		ok, err := c.checkOne(ctx, keys[0])
		if ok {
			allowed = 1
		}
		return allowed, err
	}
	var all sync.WaitGroup
	var passed atomic.Int64
	var failed atomic.Pointer[error]
	for _, key := range keys {
		all.Go(func() {
			ok, err := c.checkOne(ctx, key)
			if ok {
				passed.Add(1)
			}
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	all.Wait()
	if first := failed.Load(); first != nil {
		return 0, *first
	}
	return int(passed.Load()), nil
}

func (c *grpcClient) checkOne(ctx context.Context, key string) (allowed bool, err error) {
	entry := &ratelimitv3.RateLimitDescriptor_Entry{Key: c.entry, Value: key}
	answer, err := c.service.ShouldRateLimit(ctx, &pb.RateLimitRequest{
		Domain:      c.domain,
		Descriptors: []*ratelimitv3.RateLimitDescriptor{{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{entry}}},
	})
	if err != nil {
		return false, err
	}
	return answer.GetOverallCode() == pb.RateLimitResponse_OK, nil
}

func (c *grpcClient) close() { _ = c.conn.Close() }
