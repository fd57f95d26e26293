package envoyconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// MaxResources is the most resources of one configuration.
const MaxResources = mostFiles

// ParseResources makes a configuration of what a control plane says, as [Parse] does of files: one domain to a resource, with the same
// rules and errors. Errors call a resource by its name. Resources count in the order of their names, whatever order they come in: a
// control plane sends them in any. The error is [Errors]. opts may be nil.
func ParseResources(resources []*ratelimit.RateLimitConfig, opts *ParseOptions) (*Config, error) {
	if len(resources) > MaxResources {
		return nil, Errors{{File: "the configuration", Message: fmt.Sprintf("there are %d resources; accepted are at most %d", len(resources), MaxResources)}}
	}
	sorted := slices.SortedStableFunc(slices.Values(resources), func(a, b *ratelimit.RateLimitConfig) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	return assemble(sorted, opts, func(c *Config, r *ratelimit.RateLimitConfig, merge bool) *Error {
		m := messages{file: clip(cmp.Or(r.GetName(), "resource without a name"))}
		root := m.config(r)
		if m.wrong != nil {
			return m.wrong
		}
		return c.build(m.file, root, merge)
	})
}

// messages turns messages into values such as a file holds, so that there is one reader of both. They have no place.
type messages struct {
	file  string
	count int
	wrong *Error
}

// room reports whether there may be one value more, no deeper than accepted.
func (m *messages) room(depth int) bool {
	m.count++
	switch {
	case m.wrong != nil:
	case m.count > mostValues:
		m.wrong = loading(m.file, 0, 0, fmt.Sprintf("it holds more than %d values", mostValues))
	case depth > mostDepth:
		m.wrong = loading(m.file, 0, 0, "exceeded max depth")
	}
	return m.wrong == nil
}

func (m *messages) config(r *ratelimit.RateLimitConfig) *value {
	return object("domain", textual(r.GetDomain()), "descriptors", m.descriptors(r.GetDescriptors(), 1))
}

// descriptors are a list of them. Each level is as deep as two of a file.
func (m *messages) descriptors(all []*ratelimit.RateLimitDescriptor, depth int) *value {
	made := &value{kind: list}
	for _, d := range all {
		if !m.room(depth + 1) {
			break
		}
		v := object("key", textual(d.GetKey()), "value", textual(d.GetValue()), "shadow_mode", boolean(d.GetShadowMode()),
			"quota_mode", boolean(d.GetQuotaMode()), "detailed_metric", boolean(d.GetDetailedMetric()),
			"descriptors", m.descriptors(d.GetDescriptors(), depth+2))
		if r := d.GetRateLimit(); r != nil {
			v.set("rate_limit", m.policy(r, depth+2))
		}
		if d.GetMetadata() != nil {
			v.set("metadata", m.structure(d.GetMetadata(), depth+2))
		}
		made.items = append(made.items, v)
	}
	return made
}

// policy is a rate_limit. Its unit is told by name, and one that is not known by its number.
func (m *messages) policy(r *ratelimit.RateLimitPolicy, depth int) *value {
	replaces := &value{kind: list}
	for _, one := range r.GetReplaces() {
		if !m.room(depth) {
			break
		}
		replaces.items = append(replaces.items, object("name", textual(one.GetName())))
	}
	return object("unit", textual(r.GetUnit().String()), "requests_per_unit", integer(int64(r.GetRequestsPerUnit())),
		"unlimited", boolean(r.GetUnlimited()), "name", textual(r.GetName()), "replaces", replaces)
}

func (m *messages) structure(s *structpb.Struct, depth int) *value {
	made := &value{kind: mapping}
	for key, one := range s.GetFields() {
		if !m.room(depth) {
			break
		}
		made.set(key, m.any(one, depth+1))
	}
	return made
}

func (m *messages) any(v *structpb.Value, depth int) *value {
	switch v := v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return boolean(v.BoolValue)
	case *structpb.Value_NumberValue:
		return &value{kind: fraction, real: v.NumberValue}
	case *structpb.Value_StringValue:
		return textual(v.StringValue)
	case *structpb.Value_StructValue:
		return m.structure(v.StructValue, depth)
	case *structpb.Value_ListValue:
		made := &value{kind: list}
		for _, item := range v.ListValue.GetValues() {
			if !m.room(depth) {
				break
			}
			made.items = append(made.items, m.any(item, depth+1))
		}
		return made
	}
	return &value{kind: null}
}

func textual(s string) *value { return &value{kind: text, text: s} }

func boolean(b bool) *value { return &value{kind: truth, yes: b, text: strconv.FormatBool(b)} }

func integer(n int64) *value { return &value{kind: whole, number: n, text: strconv.FormatInt(n, 10)} }

// object is a mapping of keys and values, one behind the other.
func object(pairs ...any) *value {
	made := &value{kind: mapping}
	for i := 0; i < len(pairs); i += 2 {
		made.set(pairs[i].(string), pairs[i+1].(*value))
	}
	return made
}

// set adds a key that is not there yet.
func (v *value) set(key string, to *value) { v.members = append(v.members, member{textual(key), to}) }
