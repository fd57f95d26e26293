package grpclimit

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/key"
)

// Key selects the budget that a call spends: by client address, by a metadata value, by
// method, or by several of these. Two calls that differ in a part have different keys.
// All calls that lack the part, or in which it is empty, share one budget; see [First].
//
// Values are not normalised: upper and lower case are different keys, and so is each
// invalid byte.
//
// A [headgate.Limiter] with the same named policy uses the same key text, and so do the
// service and package httplimit for the same parts. The text of a key is built as
// follows:
//
//   - A key of one part is the text of that part. For an address see
//     [clientaddr.AppendKey].
//   - The parts of a [Join] are separated by “+”. A “+” or “\” in a part is preceded by
//     “\”.
//   - A [First] is the text of the alternative that was found. The alternative's name
//     and “=” precede it where the text could be that of another alternative.
//   - A key longer than 1 KiB is replaced with “sha256=” and its SHA-256, and so is a
//     key that begins like that.
//
// The zero value means [Address] on a server and [Target] on a client. A Key may be
// used concurrently and in any number of charges.
type Key struct {
	part     key.Part[keyRequest]
	compiled *key.Key[keyRequest] // set once the key is compiled for a server or a client
}

// Address is the client's address, for IPv6 its /64 network. It is available on servers
// only.
func Address() Key { return AddressBlock(64) }

// AddressBlock is the client's address, for IPv6 the network of its first v6Bits bits.
// A second charge with 48 bits limits a client that controls many /64 networks. A value
// outside 1 to 128 means 64, as in [Address].
func AddressBlock(v6Bits int) Key { return Key{part: key.Address[keyRequest](v6Bits)} }

// targetName is the name of the only part that is available on clients only.
const targetName = "target"

// Target is the canonical target of the client's connection. It is available on clients
// only.
func Target() Key { return textKey(targetName, func(a keyRequest) string { return a.call.Target }) }

// Metadata is the first value of a metadata key: of incoming metadata on a server, of
// outgoing metadata on a client. Clients choose the value, so do not use it alone on a
// server: a client that sends a new value with each call gets a new budget each time.
func Metadata(name string) Key {
	if name == "" {
		return Key{part: key.Wrong[keyRequest]("Metadata has no name")}
	}
	name = strings.ToLower(name)
	return textKey(key.FieldName("metadata", name), func(a keyRequest) string { return a.metadata(name) })
}

// Method is the full method name, “/package.Service/Method”. Clients cannot invent
// methods, because a server accepts only its own, unless it has a handler for unknown
// methods.
func Method() Key { return textKey("method", func(a keyRequest) string { return a.call.Method }) }

// Service is the service of the method, “package.Service”.
func Service() Key { return textKey("service", func(a keyRequest) string { return a.call.Service() }) }

// Func is the text that f returns, such as the user from the call's context. f returns
// false if the call has none. It may be called concurrently.
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

// Join combines several parts into one key, such as a method and a user. A call has a
// Join if it has all of its parts.
func Join(parts ...Key) Key { return Key{part: key.Join(partsOf(parts)...)} }

// First is the first of several parts that the call has, such as an API key, else the
// address. If the call has none of them, First is the last part, with empty text for
// what is missing. The key includes which part was used, so a metadata value that looks
// like an address never spends the budget of that address.
func First(parts ...Key) Key { return Key{part: key.First(partsOf(parts)...)} }

// Global is one budget for all calls.
func Global() Key { return Key{part: key.Global[keyRequest]()} }

func partsOf(keys []Key) []key.Part[keyRequest] {
	parts := make([]key.Part[keyRequest], len(keys))
	for i, k := range keys {
		parts[i] = k.part
	}
	return parts
}

func textKey(name string, read reader) Key { return Key{part: key.Text[keyRequest](name, read)} }

// reader reads a part of a call that does not need the client's address.
type reader func(keyRequest) string

// Read returns the part's text.
func (f reader) Read(a keyRequest) string { return f(a) }

// compile returns the key compiled for a client if client is set, else for a server. It
// returns an error if the key has a part that is not available there.
func (k Key) compile(client bool) (Key, error) {
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
			return k, errors.New("Address is available on servers only; use Target on a client")
		case part == targetName && !client:
			return k, errors.New("Target is available on clients only; use Address on a server")
		}
	}
	k.compiled = ready
	return k, nil
}

// keyRequest is a call from which keys are read. peer is nil on a client.
type keyRequest struct {
	ctx  context.Context
	call Call
	peer *client
}

// Addr returns the client's address, the zero Addr if there is none.
func (a keyRequest) Addr() netip.Addr {
	if p := a.peer; !p.known {
		p.addr, p.known = p.addresses.clientAddr(a.ctx), true
	}
	return a.peer.addr
}

// client resolves the address of one call's client once, when it is first needed.
type client struct {
	addresses *addresses
	addr      netip.Addr
	known     bool
}

// metadata returns the first value of a metadata key, empty if there is none.
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
