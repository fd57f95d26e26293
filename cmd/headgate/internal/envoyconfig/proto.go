package envoyconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// MaxResources is the maximum number of resources in one configuration.
const MaxResources = maxFiles

// ParseResources builds a configuration from the resources of a control plane. It is
// like [Parse], with resources in place of files: each resource has one domain, rules
// and error messages are the same, and errors contain the name of the resource.
// Resources are processed in the order of their names, because control planes send them
// in any order. If resources are invalid, the error is [Errors]. The parameter opts may
// be nil.
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

// converter converts protobuf messages to the same values that are read from files, so
// that one decoder handles both. The converted values have no position.
type converter struct {
	file  string
	count int
	wrong *Error
}

// countValue counts one value. It records an error and returns false if there are too
// many values or if they are nested too deeply.
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

// descriptors converts a list of descriptors; it returns nil for an empty list. One
// level of descriptors counts as two levels of nesting, as in a file.
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

// policy converts a rate_limit; r may be nil. The unit becomes its name, or its number
// if the unit has no name.
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

// keyValues holds one shared *value for the name of every key that a configuration may
// have. A value is large, so that mappings must not allocate one for each key.
var keyValues = func() map[string]*value {
	all := make(map[string]*value)
	for _, keys := range keysOf {
		for _, key := range keys {
			all[key] = textValue(key)
		}
	}
	return all
}()

// put sets a key of a mapping. It does nothing if the parameter to is nil.
func (v *value) put(key string, to *value) {
	if to != nil {
		v.members = append(v.members, member{keyValues[key], to})
	}
}

// putText sets a key of a mapping to a string. It does nothing if the string is empty.
func (v *value) putText(key, s string) {
	if s != "" {
		v.put(key, textValue(s))
	}
}

// putBool sets a key of a mapping to true. It does nothing if yes is false.
func (v *value) putBool(key string, yes bool) {
	if yes {
		v.put(key, boolValue(yes))
	}
}
