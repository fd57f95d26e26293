package envoyconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// MaxResources is the maximum number of resources of one configuration.
const MaxResources = maxFiles

// ParseResources builds a configuration from the resources of a control plane, as
// [Parse] does from files: each resource has one domain, and rules and errors are the
// same. Errors contain the resource's name. Resources are sorted by name, because
// control planes send them in any order. The error is [Errors]. opts may be nil.
func ParseResources(resources []*ratelimit.RateLimitConfig, opts *ParseOptions) (*Config, error) {
	if len(resources) > MaxResources {
		return nil, Errors{{File: "the configuration", Message: fmt.Sprintf("%d resources; must be at most %d", len(resources), MaxResources)}}
	}
	sorted := slices.SortedStableFunc(slices.Values(resources), func(a, b *ratelimit.RateLimitConfig) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	return assemble(sorted, opts, func(c *Config, r *ratelimit.RateLimitConfig, merge bool) *Error {
		m := converter{file: clip(cmp.Or(r.GetName(), "resource without a name"))}
		root := m.config(r)
		if m.wrong != nil {
			return m.wrong
		}
		return c.build(m.file, root, merge)
	})
}

// converter converts protobuf messages to values like those of a file, so that both
// have the same decoder. The values have no position.
type converter struct {
	file  string
	count int
	wrong *Error
}

// countValue counts one value. It returns false if there are too many or they are
// nested too deep.
func (m *converter) countValue(depth int) bool {
	m.count++
	switch {
	case m.wrong != nil:
	case m.count > maxValues:
		m.wrong = loadError(m.file, 0, 0, fmt.Sprintf("more than %d values", maxValues))
	case depth > maxDepth:
		m.wrong = loadError(m.file, 0, 0, "exceeded max depth")
	}
	return m.wrong == nil
}

func (m *converter) config(r *ratelimit.RateLimitConfig) *value {
	v := &value{kind: mapping}
	v.putText("domain", r.GetDomain())
	v.put("descriptors", m.descriptors(r.GetDescriptors(), 1))
	return v
}

// descriptors converts a list of descriptors; an empty list is nil. Each level counts
// as two levels of a file.
func (m *converter) descriptors(all []*ratelimit.RateLimitDescriptor, depth int) *value {
	if len(all) == 0 {
		return nil
	}
	result := &value{kind: list}
	for _, d := range all {
		if !m.countValue(depth + 1) {
			break
		}
		v := &value{kind: mapping}
		v.putText("key", d.GetKey())
		v.putText("value", d.GetValue())
		v.putBool("shadow_mode", d.GetShadowMode())
		v.putBool("quota_mode", d.GetQuotaMode())
		v.putBool("detailed_metric", d.GetDetailedMetric())
		v.put("descriptors", m.descriptors(d.GetDescriptors(), depth+2))
		v.put("rate_limit", m.policy(d.GetRateLimit(), depth+2))
		if d.GetMetadata() != nil {
			v.put("metadata", m.structure(d.GetMetadata(), depth+2))
		}
		result.items = append(result.items, v)
	}
	return result
}

// policy converts a rate_limit, which may be nil. The unit is converted to its name,
// or to its number if it is unknown.
func (m *converter) policy(r *ratelimit.RateLimitPolicy, depth int) *value {
	if r == nil {
		return nil
	}
	v := &value{kind: mapping}
	v.putText("unit", r.GetUnit().String())
	if n := int64(r.GetRequestsPerUnit()); n > 0 {
		v.put("requests_per_unit", &value{kind: integer, number: n})
	}
	v.putBool("unlimited", r.GetUnlimited())
	v.putText("name", r.GetName())
	if len(r.GetReplaces()) > 0 {
		v.put("replaces", m.replaces(r.GetReplaces(), depth))
	}
	return v
}

func (m *converter) replaces(all []*ratelimit.RateLimitReplace, depth int) *value {
	result := &value{kind: list}
	for _, name := range all {
		if !m.countValue(depth) {
			break
		}
		v := &value{kind: mapping}
		v.putText("name", name.GetName())
		result.items = append(result.items, v)
	}
	return result
}

func (m *converter) structure(s *structpb.Struct, depth int) *value {
	result := &value{kind: mapping}
	for key, field := range s.GetFields() {
		if !m.countValue(depth) {
			break
		}
		result.members = append(result.members, member{textValue(key), m.any(field, depth+1)})
	}
	return result
}

func (m *converter) any(v *structpb.Value, depth int) *value {
	switch v := v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return boolValue(v.BoolValue)
	case *structpb.Value_NumberValue:
		return &value{kind: floating, float: v.NumberValue}
	case *structpb.Value_StringValue:
		return textValue(v.StringValue)
	case *structpb.Value_StructValue:
		return m.structure(v.StructValue, depth)
	case *structpb.Value_ListValue:
		result := &value{kind: list}
		for _, item := range v.ListValue.GetValues() {
			if !m.countValue(depth) {
				break
			}
			result.items = append(result.items, m.any(item, depth+1))
		}
		return result
	}
	return &value{kind: null}
}

func textValue(s string) *value { return &value{kind: text, text: s} }

func boolValue(b bool) *value { return &value{kind: boolean, boolean: b} }

// keyValues has one value for each key of a file, to save memory: values are large.
var keyValues = func() map[string]*value {
	all := make(map[string]*value)
	for _, keys := range keysOf {
		for _, key := range keys {
			all[key] = textValue(key)
		}
	}
	return all
}()

// put sets a key of a mapping, unless its value is nil.
func (v *value) put(key string, to *value) {
	if to != nil {
		v.members = append(v.members, member{keyValues[key], to})
	}
}

// putText sets a key to a string, unless it is empty.
func (v *value) putText(key, s string) {
	if s != "" {
		v.put(key, textValue(s))
	}
}

// putBool sets a key to true, unless the value is false.
func (v *value) putBool(key string, yes bool) {
	if yes {
		v.put(key, boolValue(yes))
	}
}
