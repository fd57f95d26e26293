package grpclimit

import (
	"context"

	"github.com/headgate/headgate/clientaddr"
)

// ServerKey returns the text of a key on a server. trust may be nil.
func ServerKey(ctx context.Context, key Key, call Call, trust *clientaddr.Options) string {
	addresses, err := newAddresses(trust)
	if err != nil {
		panic(err)
	}
	compiled, err := key.compile(false)
	if err != nil {
		panic(err)
	}
	return compiled.compiled.Text(keyRequest{ctx, call, &client{addresses: addresses}})
}

// ClientKey returns the text of a key on a client.
func ClientKey(ctx context.Context, key Key, call Call) string {
	compiled, err := key.compile(true)
	if err != nil {
		panic(err)
	}
	return compiled.compiled.Text(keyRequest{ctx: ctx, call: call})
}
