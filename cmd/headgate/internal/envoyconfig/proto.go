package envoyconfig

import (
	"cmp"
	"fmt"
	"slices"
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
	v := &value{kind: mapping}
	v.tell("domain", r.GetDomain())
	v.put("descriptors", m.descriptors(r.GetDescriptors(), 1))
	return v
}

// descriptors are a list of them; nil for none. Each level is as deep as two of a file.
func (m *messages) descriptors(all []*ratelimit.RateLimitDescriptor, depth int) *value {
	if len(all) == 0 {
		return nil
	}
	made := &value{kind: list}
	for _, d := range all {
		if !m.room(depth + 1) {
			break
		}
		v := &value{kind: mapping}
		v.tell("key", d.GetKey())
		v.tell("value", d.GetValue())
		v.mark("shadow_mode", d.GetShadowMode())
		v.mark("quota_mode", d.GetQuotaMode())
		v.mark("detailed_metric", d.GetDetailedMetric())
		v.put("descriptors", m.descriptors(d.GetDescriptors(), depth+2))
		v.put("rate_limit", m.policy(d.GetRateLimit(), depth+2))
		if d.GetMetadata() != nil {
			v.put("metadata", m.structure(d.GetMetadata(), depth+2))
		}
		made.items = append(made.items, v)
	}
	return made
}

// policy is a rate_limit; nil for none. Its unit is told by name, and one that is not known by its number.
func (m *messages) policy(r *ratelimit.RateLimitPolicy, depth int) *value {
	if r == nil {
		return nil
	}
	v := &value{kind: mapping}
	v.tell("unit", r.GetUnit().String())
	if n := int64(r.GetRequestsPerUnit()); n > 0 {
		v.put("requests_per_unit", &value{kind: whole, number: n})
	}
	v.mark("unlimited", r.GetUnlimited())
	v.tell("name", r.GetName())
	if len(r.GetReplaces()) > 0 {
		v.put("replaces", m.replaces(r.GetReplaces(), depth))
	}
	return v
}

func (m *messages) replaces(all []*ratelimit.RateLimitReplace, depth int) *value {
	made := &value{kind: list}
	for _, one := range all {
		if !m.room(depth) {
			break
		}
		v := &value{kind: mapping}
		v.tell("name", one.GetName())
		made.items = append(made.items, v)
	}
	return made
}

func (m *messages) structure(s *structpb.Struct, depth int) *value {
	made := &value{kind: mapping}
	for key, one := range s.GetFields() {
		if !m.room(depth) {
			break
		}
		made.members = append(made.members, member{textual(key), m.any(one, depth+1)})
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

func boolean(b bool) *value { return &value{kind: truth, yes: b} }

// keyValues are the keys of a file, each once: values are larger than what they stand for in a message.
var keyValues = func() map[string]*value {
	all := make(map[string]*value)
	for _, keys := range keysOf {
		for _, key := range keys {
			all[key] = textual(key)
		}
	}
	return all
}()

// put says a key of a file, unless its value is nil: what is not said means what nothing means.
func (v *value) put(key string, to *value) {
	if to != nil {
		v.members = append(v.members, member{keyValues[key], to})
	}
}

// tell says a text, and mark a truth, if there is one.
func (v *value) tell(key, s string) {
	if s != "" {
		v.put(key, textual(s))
	}
}

func (v *value) mark(key string, yes bool) {
	if yes {
		v.put(key, boolean(yes))
	}
}
