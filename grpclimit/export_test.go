package grpclimit

import (
	"context"

	"github.com/headgate/headgate/clientaddr"
)

// ServerKey is the text of a key on a server; trust may be nil.
func ServerKey(ctx context.Context, key Key, call Call, trust *clientaddr.Options) string {
	address, err := newAddresses(trust)
	if err != nil {
		panic(err)
	}
	bound, err := key.compile(false)
	if err != nil {
		panic(err)
	}
	return bound.compiled.Text(keyRequest{ctx, call, &client{addresses: address}})
}

// ClientKey is the text of a key on a client.
func ClientKey(ctx context.Context, key Key, call Call) string {
	bound, err := key.compile(true)
	if err != nil {
		panic(err)
	}
	return bound.compiled.Text(keyRequest{ctx: ctx, call: call})
}
