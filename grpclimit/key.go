package grpclimit

import (
	"context"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/internal/keytext"
)

// Key says whose budget a call spends: an address, a metadata value, a method, or several of these. Different parts never run
// into each other. A call that lacks the part, or has an empty one, shares one budget with all others that do; see [First].
//
// Nothing is normalised: upper and lower case are different keys, and so is each invalid byte. A key that is longer than 1 KiB is
// replaced by its SHA-256. The state of a key made of one part is what a [headgate.Limiter] of the same policy calls by that
// part's text (for an address see [clientaddr.AppendKey]), if the policy has a name; package httplimit writes the same keys.
//
// The zero value means [Address] on a server and [Target] on a client. A Key may be used concurrently and in any number of
// charges.
type Key struct{ part *part }

// kind is where a part comes from.
type kind uint8

const (
	addressKind kind = iota
	targetKind
	metadataKind
	methodKind
	serviceKind
	funcKind
	joinKind
	firstKind
	sameKind
)

// part is one key or a part of one. It does not change once made; nil is that of the zero Key, until it is resolved.
type part struct {
	kind  kind
	bits  int                                  // of an address
	name  string                               // of metadata, in lower case
	find  func(context.Context) (string, bool) // of Func
	parts []*part                              // of Join and First
}

// defaultBits of an IPv6 address are what one client holds at least.
const defaultBits = 64

// Address is the client's address; of IPv6 its /64. Servers alone know it.
func Address() Key { return AddressBlock(defaultBits) }

// AddressBlock is the client's address, of IPv6 its first v6Bits bits: a second charge with 48 bounds who holds many /64. Outside
// 1 to 128 it is that of [Address].
func AddressBlock(v6Bits int) Key {
	if v6Bits < 1 || v6Bits > 128 {
		v6Bits = defaultBits
	}
	return Key{&part{kind: addressKind, bits: v6Bits}}
}

// Target is the server that a client calls, as its connection knows it. Clients alone have one.
func Target() Key { return Key{&part{kind: targetKind}} }

// Metadata is the first value under a name: of what came in on a server, of what goes out on a client. Clients choose it: alone
// it limits only those who keep to it, and whoever invents values has a budget for each.
func Metadata(name string) Key { return Key{&part{kind: metadataKind, name: strings.ToLower(name)}} }

// Method is the full method, “/package.Service/Method”. A server has its own methods alone, so clients cannot invent any, unless
// it has a handler for unknown ones.
func Method() Key { return Key{&part{kind: methodKind}} }

// Service is the service of the method, “package.Service”.
func Service() Key { return Key{&part{kind: serviceKind}} }

// Func is what f finds in the call's context: a user, say. It reports false if there is none. It may be called concurrently.
func Func(f func(context.Context) (string, bool)) Key { return Key{&part{kind: funcKind, find: f}} }

// Join is all of several parts together: a method and a user.
func Join(parts ...Key) Key { return Key{&part{kind: joinKind, parts: partsOf(parts)}} }

// First is the first of several parts that the call has: an API key, else the address. Which part it was belongs to the key, so
// a metadata value that looks like an address never spends the address' budget.
func First(parts ...Key) Key { return Key{&part{kind: firstKind, parts: partsOf(parts)}} }

// Same is one budget for all calls.
func Same() Key { return Key{&part{kind: sameKind}} }

func partsOf(keys []Key) []*part {
	parts := make([]*part, len(keys))
	for i, k := range keys {
		parts[i] = k.part
	}
	return parts
}

// wrong says why a key cannot work; it is empty if it can.
func (p *part) wrong(client bool) string {
	switch {
	case p.kind == addressKind && client:
		return "Address is for servers: a client has Target"
	case p.kind == targetKind && !client:
		return "Target is for clients: a server has Address"
	case p.kind == metadataKind && p.name == "":
		return "Metadata has no name"
	case p.kind == funcKind && p.find == nil:
		return "Func has no function"
	case (p.kind == joinKind || p.kind == firstKind) && len(p.parts) == 0:
		return "Join and First need parts"
	}
	for _, inner := range p.parts {
		if why := inner.wrong(client); why != "" {
			return why
		}
	}
	return ""
}

// asker is the call of which keys are made, and its client's address, once it was needed.
type asker struct {
	call    Call
	address *addresses // nil on a client
	addr    netip.Addr
	known   bool // addr was looked for
}

// appendKey appends the text of a whole key, which takes at most [keytext.MaxBytes].
func (a *asker) appendKey(ctx context.Context, dst []byte, p *part) []byte {
	begin := len(dst)
	dst, _ = a.append(ctx, dst, p)
	return keytext.Bounded(dst, begin)
}

// append appends the text of a part and reports whether the call has it.
func (a *asker) append(ctx context.Context, dst []byte, p *part) ([]byte, bool) {
	begin := len(dst)
	switch p.kind {
	case addressKind:
		return a.appendAddress(ctx, dst, p.bits)
	case targetKind:
		dst = append(dst, a.call.Target...)
	case metadataKind:
		dst = append(dst, a.metadata(ctx, p.name)...)
	case methodKind:
		dst = append(dst, a.call.Method...)
	case serviceKind:
		dst = append(dst, a.call.Service()...)
	case funcKind:
		if text, ok := p.find(ctx); ok {
			dst = append(dst, text...)
		}
	case joinKind:
		return a.appendAll(ctx, dst, p.parts)
	case firstKind:
		return a.appendFirst(ctx, dst, p.parts)
	case sameKind:
		return dst, true
	}
	return dst, len(dst) > begin
}

func (a *asker) appendAddress(ctx context.Context, dst []byte, bits int) ([]byte, bool) {
	if !a.known {
		a.addr, a.known = a.address.of(ctx), true
	}
	return clientaddr.AppendKey(dst, clientaddr.Group(a.addr, bits)), a.addr.IsValid()
}

// metadata is the first value under a name, empty if there is none.
func (a *asker) metadata(ctx context.Context, name string) string {
	var values []string
	if a.address != nil {
		values = metadata.ValueFromIncomingContext(ctx, name)
	} else if out, ok := metadata.FromOutgoingContext(ctx); ok {
		values = out[name]
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// appendAll writes the parts so that each can be told from the others. It has them if it has one.
func (a *asker) appendAll(ctx context.Context, dst []byte, parts []*part) (_ []byte, has bool) {
	for _, p := range parts {
		begin := len(dst)
		var ok bool
		dst, ok = a.append(ctx, dst, p)
		dst = keytext.Joined(dst, begin)
		has = has || ok
	}
	return dst, has
}

// appendFirst writes the first part that is there, and which it was.
func (a *asker) appendFirst(ctx context.Context, dst []byte, parts []*part) ([]byte, bool) {
	begin := len(dst)
	for i, p := range parts {
		var ok bool
		if dst, ok = a.append(ctx, keytext.AppendChoice(dst[:begin], i), p); ok {
			return dst, true
		}
	}
	return keytext.AppendChoice(dst[:begin], -1), false
}
