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
	a := asker{call: call, address: address}
	return string(a.appendKey(ctx, nil, key.resolved(false).part))
}

// ClientKey is the text of a key on a client.
func ClientKey(ctx context.Context, key Key, call Call) string {
	a := asker{call: call}
	return string(a.appendKey(ctx, nil, key.resolved(true).part))
}
