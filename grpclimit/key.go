package grpclimit

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/key"
)

// Key determines which calls share a budget: for example all calls of a client address,
// of a metadata value, of a method, or of a combination of these parts. Two calls that
// differ in a part have different keys. All calls in which a part is missing or empty
// share one budget; see [First].
//
// Values are not normalised: upper and lower case give different keys, and so do
// different invalid bytes.
//
// A [headgate.Limiter] whose policy has the same name uses the same text as key, and so
// do the service and package httplimit for the same parts. The text of a key is built
// as follows:
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
// used concurrently and in several charges.
type Key struct {
	part     key.Part[keyRequest]
	compiled *key.Key[keyRequest] // nil until the key is compiled for a server or a client
}

// Address is a key that consists of the client's address, or of its /64 network for
// IPv6. It is available on servers only.
func Address() Key { return AddressBlock(64) }

// AddressBlock is like [Address], but for IPv6 uses the network of the first v6Bits
// bits. Use it with 48 bits in a second charge to limit a client that controls many /64
// networks. A v6Bits outside 1 to 128 means 64. It is available on servers only.
func AddressBlock(v6Bits int) Key { return Key{part: key.Address[keyRequest](v6Bits)} }

// targetName is the name of the part of [Target]. No other part is available on clients
// only.
const targetName = "target"

// Target is a key that consists of the canonical target of the client's connection,
// such as “dns:///example.org:443”. It is available on clients only.
func Target() Key { return textKey(targetName, func(a keyRequest) string { return a.call.Target }) }

// Metadata is a key that consists of the first value of the metadata with the given
// name: incoming metadata on a server, outgoing metadata on a client. Clients choose
// the value, so do not use Metadata alone on a server: a client that sends a new value
// with each call gets a new budget each time.
func Metadata(name string) Key {
	if name == "" {
		return Key{part: key.Wrong[keyRequest]("Metadata has no name")}
	}
	name = strings.ToLower(name)
	return textKey(key.FieldName("metadata", name), func(a keyRequest) string { return a.metadata(name) })
}

// Method is a key that consists of the full method name, “/package.Service/Method”.
// Clients cannot invent methods, because a server rejects an unknown method, unless it
// has a handler for unknown services.
func Method() Key { return textKey("method", func(a keyRequest) string { return a.call.Method }) }

// Service is a key that consists of the service of the method, “package.Service”.
func Service() Key { return textKey("service", func(a keyRequest) string { return a.call.Service() }) }

// Func is a key that consists of the text that f returns, such as the name of the user
// from the call's context. f returns false if the call has no such text. f may be
// called concurrently.
func Func(f func(context.Context) (string, bool)) Key {
	if f == nil {
		return Key{part: key.Wrong[keyRequest]("Func has no function")}
	}
	return Key{part: key.Func[keyRequest](f, reader(func(a keyRequest) string {
		if found, ok := f(a.ctx); ok {
			return found
		}
		return ""
	}))}
}

// Join is a key that combines several parts, such as a method and a user. A Join counts
// as missing, for [First], if any of its parts is missing.
func Join(parts ...Key) Key { return Key{part: key.Join(partsOf(parts)...)} }

// First is a key that consists of the first of several parts that is not missing in the
// call: for example the API key, or the address in a call without an API key. If all
// parts are missing, the last part is used, with empty text for what is missing. The
// text of the key includes which part was used, so that a metadata value that looks
// like an address never spends the budget of that address.
func First(parts ...Key) Key { return Key{part: key.First(partsOf(parts)...)} }

// Global is a key that is the same for all calls, so that all calls share one budget.
func Global() Key { return Key{part: key.Global[keyRequest]()} }

func partsOf(keys []Key) []key.Part[keyRequest] {
	parts := make([]key.Part[keyRequest], len(keys))
	for i, k := range keys {
		parts[i] = k.part
	}
	return parts
}

func textKey(name string, read reader) Key { return Key{part: key.Text[keyRequest](name, read)} }

// reader returns the text of a part that does not depend on the client's address.
type reader func(keyRequest) string

// Read returns the text of the part for a call.
func (f reader) Read(a keyRequest) string { return f(a) }

// compile returns the key compiled for a client if the parameter client is true, else
// for a server. It returns an error if the key has a part that is not available there.
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

// keyRequest is a call of which the key is computed. peer is nil on a client.
type keyRequest struct {
	ctx  context.Context
	call Call
	peer *client
}

// Addr returns the client's address, or the zero Addr if the client has no address. It
// must be called on a server only.
func (a keyRequest) Addr() netip.Addr {
	if p := a.peer; !p.known {
		p.addr, p.known = p.addresses.clientAddr(a.ctx), true
	}
	return a.peer.addr
}

// client is the client of one call. Its address is determined when it is first needed,
// and only once.
type client struct {
	addresses *addresses
	addr      netip.Addr
	known     bool
}

// metadata returns the first value of the metadata with the given name, or an empty
// string if the call has none.
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
