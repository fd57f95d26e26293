package grpclimit_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

type brokenStream struct{ grpc.ClientStream }

func (brokenStream) SendMsg(any) error            { return errors.New("rpc error: marshal") }
func (brokenStream) Header() (metadata.MD, error) { return nil, errors.New("rpc error: unavailable") }

// A stream has ended when SendMsg or Header returns an error other than io.EOF: see
// grpc.ClientConn.NewStream.
func TestStreamEndedBySendOrHeader(t *testing.T) {
	for name, end := range map[string]func(grpc.ClientStream) error{
		"SendMsg": func(s grpc.ClientStream) error { return s.SendMsg(nil) },
		"Header":  func(s grpc.ClientStream) error { _, err := s.Header(); return err },
	} {
		store := memstore.New(nil)
		c, err := grpclimit.NewClient(store, nil, slotsCharge())
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Stream(context.Background(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, nil, "/m", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			return brokenStream{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if end(s) == nil {
			t.Fatal("no error")
		}
		t.Log(name)
		mustBeFree(t, store, 0)
	}
}

func TestPanicLeaksSlot(t *testing.T) {
	for _, inStreamer := range []bool{true, false} {
		store := memstore.New(nil)
		rate := rateCharge()
		rate.Cost = func(context.Context, grpclimit.Call) int64 {
			if !inStreamer {
				panic("cost")
			}
			return 0
		}
		c, err := grpclimit.NewClient(store, nil, slotsCharge(), rate)
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { recover() }()
			_, _ = c.Stream(context.Background(), &grpc.StreamDesc{}, nil, "/m", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				panic("streamer")
			})
		}()
		t.Log("in streamer:", inStreamer)
		mustBeFree(t, store, 0)
	}
}
