package grpclimit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// rules are what the store is asked to keep for the charge. On a server a policy without a name counts apart for each sort of key,
// or a metadata value that looks like an address would spend that address' budget; only that of addresses is known by its limits
// alone, so that other doors share it. A client's keys are its own program's.
func (c *Charge) rules(client bool) []headgate.Rule {
	rules := c.Policy.Rules()
	if client || c.Policy.Name != "" || c.Key.part.equal(Address().part) {
		return rules
	}
	for i := range rules {
		rules[i].Scope += " by " + c.Key.part.shape()
	}
	return rules
}

// mixes reports whether texts that mean different things would name the same state.
func (c *Charge) mixes(other *Charge, client bool) bool {
	theirs := other.rules(client)
	return !c.Key.part.equal(other.Key.part) && slices.ContainsFunc(c.rules(client), func(ours headgate.Rule) bool {
		return slices.ContainsFunc(theirs, func(r headgate.Rule) bool { return r.Scope == ours.Scope })
	})
}

// resolved is the key with what zero keys in it mean.
func (k Key) resolved(client bool) Key {
	switch {
	case k.part == nil && client:
		return Target()
	case k.part == nil:
		return Address()
	case len(k.part.parts) == 0:
		return k
	}
	whole := *k.part
	whole.parts = make([]*part, len(k.part.parts))
	for i, inner := range k.part.parts {
		whole.parts[i] = Key{inner}.resolved(client).part
	}
	return Key{&whole}
}

// equal reports whether two keys give the same text for every call, as far as that can be told.
func (p *part) equal(q *part) bool {
	if p == q {
		return true
	}
	return p.kind == q.kind && p.kind != funcKind && p.bits == q.bits && p.name == q.name &&
		slices.EqualFunc(p.parts, q.parts, (*part).equal)
}

// shape tells what a key is made of in words, equal for equal keys. Functions cannot be told apart.
func (p *part) shape() string {
	switch p.kind {
	case addressKind:
		return "address/" + strconv.Itoa(p.bits)
	case metadataKind:
		return "metadata " + p.name
	case joinKind, firstKind:
		inner := make([]string, len(p.parts))
		for i, q := range p.parts {
			inner[i] = q.shape()
		}
		return [...]string{joinKind: "join", firstKind: "first"}[p.kind] + "(" + strings.Join(inner, ", ") + ")"
	default:
		return [...]string{
			targetKind: "target", methodKind: "method", serviceKind: "service", funcKind: "func", sameKind: "same",
		}[p.kind]
	}
}
