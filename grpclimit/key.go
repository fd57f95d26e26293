package grpclimit

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/key"
)

// Key says whose budget a call spends: an address, a metadata value, a method, or several of these. Different parts never run
// into each other. A call that lacks the part, or has an empty one, shares one budget with all others that do; see [First].
//
// Nothing is normalised: upper and lower case are different keys, and so is each invalid byte.
//
// The text of a key is what a [headgate.Limiter] of the same named policy calls it, and so do the service and package httplimit for
// the same parts. A key of one part is that part; for an address see [clientaddr.AppendKey]. Joined parts have a “+” between them,
// and a “+” or “\” of their own has a “\” before it. A First is the text of the alternative, after its name and a “=” where it
// could be mistaken for another one. A key longer than 1 KiB is replaced with “sha256=” and its SHA-256, and so is one that begins like that.
//
// The zero value means [Address] on a server and [Target] on a client. A Key may be used concurrently and in any number of
// charges.
type Key struct {
	part  key.Part[keyRequest]
	ready *key.Key[keyRequest] // set once the key is bound to a side
}

// Address is the client's address; of IPv6 its /64. Servers alone know it.
func Address() Key { return AddressBlock(64) }

// AddressBlock is the client's address, of IPv6 its first v6Bits bits: a second charge with 48 bounds who holds many /64. Outside
// 1 to 128 it is that of [Address].
func AddressBlock(v6Bits int) Key { return Key{part: key.Address[keyRequest](v6Bits)} }

// targetName is the name of the only part that clients alone have.
const targetName = "target"

// Target is the server that a client calls, as its connection knows it. Clients alone have one.
func Target() Key { return text(targetName, func(a keyRequest) string { return a.call.Target }) }

// Metadata is the first value under a name: of what came in on a server, of what goes out on a client. Clients choose it: alone
// it limits only those who keep to it, and whoever invents values has a budget for each.
func Metadata(name string) Key {
	if name == "" {
		return Key{part: key.Wrong[keyRequest]("Metadata has no name")}
	}
	name = strings.ToLower(name)
	return text(key.FieldName("metadata", name), func(a keyRequest) string { return a.metadata(name) })
}

// Method is the full method, “/package.Service/Method”. A server has its own methods alone, so clients cannot invent any, unless
// it has a handler for unknown ones.
func Method() Key { return text("method", func(a keyRequest) string { return a.call.Method }) }

// Service is the service of the method, “package.Service”.
func Service() Key { return text("service", func(a keyRequest) string { return a.call.Service() }) }

// Func is what f finds in the call's context: a user, say. It reports false if there is none. It may be called concurrently.
func Func(f func(context.Context) (string, bool)) Key {
	if f == nil {
		return Key{part: key.Wrong[keyRequest]("Func has no function")}
	}
	return Key{part: key.Func[keyRequest](reader(func(a keyRequest) string {
		if found, ok := f(a.ctx); ok {
			return found
		}
		return ""
	}))}
}

// Join is all of several parts together: a method and a user. A call has it if it has all of them.
func Join(parts ...Key) Key { return Key{part: key.Join(partsOf(parts)...)} }

// First is the first of several parts that the call has: an API key, else the address; if it has none, it is the last, with nothing
// for what is missing. Which part it was belongs to the key, so a metadata value that looks like an address never spends the
// address' budget.
func First(parts ...Key) Key { return Key{part: key.First(partsOf(parts)...)} }

// Same is one budget for all calls.
func Global() Key { return Key{part: key.Global[keyRequest]()} }

func partsOf(keys []Key) []key.Part[keyRequest] {
	parts := make([]key.Part[keyRequest], len(keys))
	for i, k := range keys {
		parts[i] = k.part
	}
	return parts
}

func text(name string, read reader) Key { return Key{part: key.Text[keyRequest](name, read)} }

// reader reads a part that needs no address.
type reader func(keyRequest) string

// Read returns the part's text.
func (f reader) Read(a keyRequest) string { return f(a) }

// bound returns the key ready for a side, or an error if it cannot work there.
func (k Key) bound(client bool) (Key, error) {
	zero := Address()
	if client {
		zero = Target()
	}
	ready, err := k.part.Key(zero.part)
	if err != nil {
		return k, err
	}
	for _, part := range ready.Parts() {
		switch isAddress := part == "ip" || strings.HasPrefix(part, "ip/"); {
		case isAddress && client:
			return k, errors.New("Address is for servers: a client has Target")
		case part == targetName && !client:
			return k, errors.New("Target is for clients: a server has Address")
		}
	}
	k.ready = ready
	return k, nil
}

// keyRequest is the call that keys are made for, and its peer, which is nil on a client.
type keyRequest struct {
	ctx  context.Context
	call Call
	peer *client
}

// Addr returns the client's address, the zero Addr if there is none.
func (a keyRequest) Addr() netip.Addr {
	if p := a.peer; !p.known {
		p.addr, p.known = p.from.of(a.ctx), true
	}
	return a.peer.addr
}

// client is the client behind one call. Its address is resolved once, when it is needed.
type client struct {
	from  *addresses
	addr  netip.Addr
	known bool
}

// metadata is the first value under a name, empty if there is none.
func (a keyRequest) metadata(name string) string {
	var values []string
	if a.peer != nil {
		values = metadata.ValueFromIncomingContext(a.ctx, name)
	} else if out, ok := metadata.FromOutgoingContext(a.ctx); ok {
		values = out[name]
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
