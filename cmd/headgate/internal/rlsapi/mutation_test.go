package rlsapi_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/internal/mutation"
)

// mutatedConfig has a rule that the attacker has exhausted, and others that values of the
// attacker match.
const mutatedConfig = clientConfig + `
  - key: polite
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
`

// exhaust sends requests of the attacker until it is over its limit.
func exhaust(t *testing.T, h *rlsapi.Handler) {
	t.Helper()
	for range 3 {
		if _, err := h.ShouldRateLimit(t.Context(), request("d", "address", "attacker")); err != nil {
			t.Fatal(err)
		}
	}
}

// polite sends a request of a client that is below its limit.
func polite(c pb.RateLimitServiceClient) error {
	resp, err := c.ShouldRateLimit(context.Background(), request("d", "polite", "p"))
	if err != nil || resp.GetOverallCode() != pb.RateLimitResponse_OK || resp.GetStatuses()[0].GetLimitRemaining() == 0 {
		return fmt.Errorf("got %v, error %w", resp, err)
	}
	return nil
}

// TestMutatedRequests: a client of Envoy that is over its limit stays over it, whatever
// else its requests contain. A message that is not a valid request causes no panic.
func TestMutatedRequests(t *testing.T) {
	h := open(t, nil, mutatedConfig, &rlsapi.Options{DynamicMetadata: true, Headers: &rlsapi.Headers{}})
	exhaust(t, h)
	addr, well := rawClient(t, h)
	(&mutation.Attack{
		Sender: func() func(*rand.Rand) error {
			conn := connect(t, addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})))
			c := pb.NewRateLimitServiceClient(conn)
			return func(rng *rand.Rand) error {
				req := mutatedRequest(rng)
				if rng.IntN(10) == 0 {
					body := []byte(mutation.Mutate(rng, string(encode(req))))
					err := conn.Invoke(context.Background(), pb.RateLimitService_ShouldRateLimit_FullMethodName, body, new(pb.RateLimitResponse))
					if err != nil && (strings.Contains(err.Error(), "internal error") || strings.Contains(err.Error(), "Unavailable")) {
						return fmt.Errorf("an invalid message: %w", err)
					}
					return nil
				}
				ctx := context.Background()
				if rng.IntN(10) == 0 {
					ctx = metadata.AppendToOutgoingContext(ctx, "tracestate", strings.Repeat("t", mutation.Length(rng)))
				}
				return requireDenied(c.ShouldRateLimit(ctx, req))
			}
		},
		Polite: func() error { return polite(well) },
	}).Run(t)
}

func requireDenied(resp *pb.RateLimitResponse, err error) error {
	if err != nil || resp.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
		return fmt.Errorf("got %v, error %w want OVER_LIMIT", resp.GetOverallCode(), err)
	}
	return nil
}

// mutatedRequest returns a request that Envoy may send for a client that is over its
// limit by address. Everything except the domain, and the descriptor with the address, is
// the client's choice.
func mutatedRequest(rng *rand.Rand) *pb.RateLimitRequest {
	req := &pb.RateLimitRequest{Domain: "d"}
	if rng.IntN(4) == 0 {
		req.HitsAddend = uint32(rng.Uint64() >> rng.IntN(64))
	}
	n := rng.IntN(5)
	if rng.IntN(20) == 0 {
		n = rng.IntN(100)
	}
	for range n {
		req.Descriptors = append(req.Descriptors, mutatedDescriptor(rng))
	}
	i := rng.IntN(n + 1)
	req.Descriptors = append(req.Descriptors, descriptor("address", "attacker"))
	req.Descriptors[i], req.Descriptors[n] = req.Descriptors[n], req.Descriptors[i]
	return req
}

func mutatedDescriptor(rng *rand.Rand) *ratelimit.RateLimitDescriptor {
	var entries []string
	for range 1 + rng.IntN(3)*rng.IntN(2) {
		entries = append(entries, mutation.Value(rng, "user", "path", "agent", "two", "deep", "other"), mutation.Value(rng, "alice", "/login", "xy"))
	}
	if rng.IntN(2) == 0 {
		entries[0] = []string{"user", "path", "agent", "two", "deep"}[rng.IntN(5)]
	}
	d := descriptor(entries...)
	if rng.IntN(4) == 0 {
		d.HitsAddend = wrapperspb.UInt64(rng.Uint64() >> rng.IntN(64))
	}
	if rng.IntN(8) == 0 {
		d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{
			RequestsPerUnit: uint32(rng.Uint64() >> rng.IntN(64)), Unit: typev3.RateLimitUnit(rng.IntN(12) - 2),
		}
	}
	return d
}

// TestMutatedJSON: as TestMutatedRequests, at /json. A program has written the client's
// value into a text without verifying it.
func TestMutatedJSON(t *testing.T) {
	h := open(t, nil, mutatedConfig, &rlsapi.Options{DynamicMetadata: true})
	exhaust(t, h)
	server := httptest.NewServer(http.HandlerFunc(h.ServeJSON))
	t.Cleanup(server.Close)
	post := func(body string) (int, error) {
		resp, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}
	const front = `{"domain":"d","descriptors":[{"entries":[{"key":"address","value":"attacker"}]},{"entries":[{"key":"user","value":"`
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	(&mutation.Attack{
		Sender: func() func(*rand.Rand) error {
			return func(rng *rand.Rand) error {
				value := mutation.Value(rng, "alice", `\ud800`, `\udc00`)
				valid := !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' })
				if rng.IntN(10) > 0 {
					value = escape.Replace(value)
				} else {
					valid = false // the value may end the text
				}
				switch status, err := post(front + value + `"}]}]}`); {
				case err != nil, status >= 500, status == 200 && valid, valid && status != 429:
					return fmt.Errorf("got %d, error %w", status, err)
				}
				return nil
			}
		},
		Polite: func() error {
			if status, err := post(`{"domain":"d","descriptors":[{"entries":[{"key":"polite","value":"p"}]}]}`); err != nil || status != 200 {
				return fmt.Errorf("got %d, error %w", status, err)
			}
			return nil
		},
	}).Run(t)
}
