package grpclimit_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/internal/admission/admissiontest"
)

func chargesOf(key grpclimit.Key, policies []headgate.Policy) (charges []grpclimit.Charge) {
	for _, p := range policies {
		charges = append(charges, grpclimit.Charge{Policy: p, Key: key})
	}
	return charges
}

func TestServerAdmissionScenarios(t *testing.T) {
	admissiontest.Run(t, admissiontest.Caller{
		New: func(t *testing.T, store headgate.Store, policies ...headgate.Policy) func(context.Context) error {
			s, err := grpclimit.NewServer(store, nil, chargesOf(grpclimit.Address(), policies)...)
			if err != nil {
				t.Fatal(err)
			}
			from := &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(admissiontest.Address), Port: 1}}
			info := &grpc.UnaryServerInfo{FullMethod: "/test.Service/Call"}
			return func(ctx context.Context) error {
				_, err := s.Unary(peer.NewContext(ctx, from), nil, info, func(context.Context, any) (any, error) { return nil, nil })
				return err
			}
		},
	})
}

func TestClientAdmissionScenarios(t *testing.T) {
	key := grpclimit.Func(func(context.Context) (string, bool) { return admissiontest.Address, true })
	admissiontest.Run(t, admissiontest.Caller{
		OneByOne: true,
		New: func(t *testing.T, store headgate.Store, policies ...headgate.Policy) func(context.Context) error {
			return func(ctx context.Context) error {
				c, err := grpclimit.NewClient(store, nil, chargesOf(key, policies)...)
				if err != nil {
					t.Fatal(err)
				}
				invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
				return c.Unary(ctx, "/test.Service/Call", nil, nil, nil, invoke)
			}
		},
	})
}
