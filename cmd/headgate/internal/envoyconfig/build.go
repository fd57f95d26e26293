package envoyconfig

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
)

// File is the name and the content of one file.
type File struct {
	Name    string // name of the file in errors
	Content []byte
	// Skipped means that the file is not read: [Parse] only adds a warning.
	Skipped bool
}

// ParseOptions are the options of [Parse] and [ParseResources]. A field with the zero
// value has the default given in its comment; a nil pointer means all defaults.
type ParseOptions struct {
	// MergeDomains allows several files to define descriptors of the same domain; by
	// default, this is an error.
	MergeDomains bool
	// CalendarMonths makes the windows of the unit month the months of the calendar in
	// UTC; by default, they are 30 days long.
	CalendarMonths bool
	// CheckLease returns an error if limits with an algorithm cannot be leased, and a
	// warning if a lease has no effect. nil accepts every lease.
	CheckLease func(headgate.Algorithm) (warning string, err error)
}

// Parse builds a configuration from the contents of files. If files are invalid, it
// returns [Errors]. The parameter opts may be nil.
func Parse(files []File, opts *ParseOptions) (*Config, error) {
	return assemble(files, opts, (*Config).add)
}

// assemble builds a configuration from parts, which are files or resources. It calls
// add once for each part, and returns the errors of all parts.
func assemble[Part any](parts []Part, opts *ParseOptions, add func(c *Config, part Part, merge bool) *Error) (*Config, error) {
	opts = cmp.Or(opts, &ParseOptions{})
	c := &Config{domains: make(map[string]*Domain), calendarMonths: opts.CalendarMonths, checkLease: opts.CheckLease}
	var errs Errors
	for _, part := range parts {
		if wrong := add(c, part, opts.MergeDomains); wrong != nil {
			errs = append(errs, wrong)
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	c.warnReplaces()
	return c, nil
}

func (c *Config) add(f File, merge bool) *Error {
	if f.Skipped {
		c.warnings = append(c.warnings, Warning{File: f.Name, Message: "the file is not read, because its name does not end in .yaml; rename it, or set envoy.all_files"})
		return nil
	}
	root, more, wrong := readDocument(f.Name, f.Content)
	if wrong != nil {
		return wrong
	}
	if root != nil && root.kind != mapping && root.kind != null {
		d := decoder{file: f.Name}
		d.mismatch(root, "map[interface {}]interface {}")
		return d.wrong
	}
	if root == nil || root.kind == null {
		root = &value{kind: mapping}
	}
	if wrong := checkKeys(f.Name, root); wrong != nil {
		return wrong
	}
	if wrong := c.build(f.Name, root, merge); wrong != nil {
		return wrong
	}
	if more {
		c.warnings = append(c.warnings, Warning{f.Name, root.line, root.column, "only the first document of the file is read"})
	}
	return nil
}

// build adds the domain and the rules of one file.
func (c *Config) build(file string, root *value, merge bool) *Error {
	b := builder{decoder: decoder{file: file}, config: c}
	b.document(root, merge)
	if b.wrong == nil {
		c.warnings = append(c.warnings, b.warnings...)
	}
	return b.wrong
}

// builder builds the descriptor tree of one file.
type builder struct {
	decoder
	config *Config
}

func (b *builder) document(root *value, merge bool) {
	b.checkTypes(root)
	if b.wrong != nil {
		return
	}
	b.mapping(root, inFile)
	name := b.str(root.get("domain"))
	if name == "" {
		b.fail(root, "config file cannot have empty domain")
		return
	}
	d := b.config.domains[name]
	if d != nil && !merge {
		b.fail(root.get("domain"), fmt.Sprintf("duplicate domain '%s' in config file", name))
		return
	}
	if d == nil {
		d = &Domain{name: name}
		b.config.domains[name] = d
	}
	b.descriptors(&d.top, name+".", root.get("descriptors"))
}

// checkTypes records an error for the first value of a wrong type in the whole file. It
// is called before all other checks, as in envoyproxy/ratelimit.
func (b *builder) checkTypes(root *value) {
	d := decoder{file: b.file}
	d.str(root.get("domain"))
	d.checkDescriptors(root.get("descriptors"))
	b.wrong = d.wrong
}

func (d *decoder) checkDescriptors(from *value) {
	for _, v := range d.list(from) {
		d.str(v.get("key"))
		d.str(v.get("value"))
		for _, key := range []string{"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold"} {
			d.boolean(v.get(key))
		}
		if m := v.get("metadata"); m != nil && m.kind != null && m.kind != mapping {
			d.mismatch(m, "map[string]interface {}")
		}
		if r := v.get("rate_limit"); d.mapping(r, inRateLimit) {
			d.number(r.get("requests_per_unit"))
			d.number(r.get("unit_multiplier"))
			d.boolean(r.get("unlimited"))
			for _, key := range []string{"unit", "name", "algorithm", "on_store_error"} {
				d.str(r.get(key))
			}
			d.checkTypesOfLease(r.get("lease"))
			for _, replaced := range d.list(r.get("replaces")) {
				d.str(replaced.get("name"))
			}
			_, limits := d.limitItems(r)
			for _, limit := range limits {
				d.str(limit)
			}
		}
		if d.wrong != nil {
			return
		}
		d.checkDescriptors(v.get("descriptors"))
	}
}

// descriptors adds a list of descriptors as children of a node. The parameter parent is
// the path of the node with a trailing dot.
func (b *builder) descriptors(at *node, parent string, from *value) {
	for _, v := range b.list(from) {
		if b.wrong != nil {
			return
		}
		b.mapping(v, inDescriptor)
		b.descriptor(at, parent, v)
	}
	b.warnUnreachable(at, from)
}

func (b *builder) descriptor(at *node, parent string, v *value) {
	key, val := b.str(v.get("key")), b.str(v.get("value"))
	if key == "" {
		b.fail(v, "descriptor has empty key")
		return
	}
	n := &node{pattern: key, sharesCount: b.boolean(v.get("share_threshold")), valueToMetric: b.boolean(v.get("value_to_metric"))}
	if val != "" {
		n.pattern += "_" + val
	}
	path := parent + n.pattern
	if at.children[n.pattern] != nil {
		b.fail(v, fmt.Sprintf("duplicate descriptor composite key '%s'", path))
		return
	}
	n.rule = b.rule(v, path)
	wild := strings.Contains(n.pattern, "*")
	if n.sharesCount && !wild {
		b.fail(v, fmt.Sprintf("share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", n.pattern))
	}
	if at.children == nil {
		at.children = make(map[string]*node)
	}
	at.children[n.pattern] = n
	if wild {
		n.parts = bytes.Split([]byte(n.pattern), []byte("*"))
		at.wildcards = append(at.wildcards, n)
	}
	first := len(b.config.rules)
	b.descriptors(n, path+".", v.get("descriptors"))
	b.markVariable(n, first)
}

// markVariable marks the rules of node n, and the rules below it, if n has
// value_to_metric: the metric names of these rules depend on the request. The parameter
// first is the index of the first rule below n.
func (b *builder) markVariable(n *node, first int) {
	if !n.valueToMetric {
		return
	}
	if n.rule != nil {
		n.rule.variableName = true
	}
	for _, r := range b.config.rules[first:] {
		r.variableName = true
	}
}

// rule returns the rule of a descriptor, or nil if the descriptor has no rate_limit.
func (b *builder) rule(v *value, path string) *Rule {
	from := v.get("rate_limit")
	if !b.mapping(from, inRateLimit) {
		b.warnWithoutRule(v)
		return nil
	}
	r := &Rule{
		Name:      b.str(from.get("name")),
		Unlimited: b.boolean(from.get("unlimited")),
		Shadow:    b.boolean(v.get("shadow_mode")),
		Quota:     b.boolean(v.get("quota_mode")),
		Detailed:  b.boolean(v.get("detailed_metric")),
		Path:      path,
		Index:     len(b.config.rules),
	}
	b.limits(r, from)
	b.lease(r, from.get("lease"))
	for _, replaced := range b.list(from.get("replaces")) {
		b.mapping(replaced, inReplaces)
		b.replaces(r, replaced)
	}
	r.Metadata = b.metadata(v.get("metadata"))
	b.config.rules = append(b.config.rules, r)
	if b.config.nameBytes += len(path); b.config.nameBytes > maxNameBytes {
		b.fail(v, fmt.Sprintf("the names of all rules (domain.key_value.key) have more than %d bytes", maxNameBytes))
	}
	return r
}

// warnWithoutRule adds a warning for each key that has no effect in a descriptor
// without a rate_limit.
func (b *builder) warnWithoutRule(v *value) {
	for _, key := range []string{"shadow_mode", "quota_mode", "detailed_metric", "metadata"} {
		if at := v.get(key); at != nil && (at.boolean || at.kind >= list) {
			b.warn(at, "%s has no effect in a descriptor without a rate_limit", key)
		}
	}
}

func (b *builder) replaces(r *Rule, v *value) {
	name := b.str(v.get("name"))
	switch name {
	case "":
		b.fail(v, "should not have an empty replaces entry")
	case r.Name:
		b.fail(v, "replaces should not contain name of same descriptor")
	}
	r.Replaces = append(r.Replaces, name)
}

// metadata converts a mapping to the metadata of responses.
func (b *builder) metadata(v *value) *structpb.Struct {
	if v == nil || v.kind != mapping {
		return nil
	}
	metadata, err := structpb.NewStruct(b.plainMap(v, true))
	if err != nil {
		b.fail(v, "error parsing metadata: "+err.Error())
	}
	return metadata
}

// plainMap converts a mapping in metadata. The name of a key that is not a string is the
// text of the key as written, or below the top level its value: yes becomes true. A key
// that is null is empty at the top level.
func (b *builder) plainMap(v *value, top bool) map[string]any {
	m := make(map[string]any, len(v.members))
	if v.base != nil {
		m = b.plainMap(v.base, top)
	}
	for _, field := range v.members {
		name := field.key.text
		switch {
		case !top:
			name = fmt.Sprint(field.key.generic())
		case field.key.kind == null:
			name = ""
		}
		m[name] = b.plain(field.value)
	}
	return m
}

// plain converts a value of metadata to the Go types that structpb accepts.
func (b *builder) plain(v *value) any {
	switch v.kind {
	case list:
		items := make([]any, len(v.items))
		for i, item := range v.items {
			items[i] = b.plain(item)
		}
		return items
	case mapping:
		return b.plainMap(v, false)
	}
	return v.generic()
}

// warnUnreachable adds a warning for each descriptor that can never match, because
// another descriptor on the same level always matches first. It compares each
// descriptor with all descriptors that contain "*". The comparisons stop after
// maxComparedBytes in the whole configuration.
func (b *builder) warnUnreachable(at *node, from *value) {
	if from == nil || len(at.wildcards) == 0 || b.wrong != nil {
		return
	}
	for _, v := range from.items {
		key, val := b.str(v.get("key")), b.str(v.get("value"))
		pattern := key + "_" + val
		if val == "" {
			pattern = key
		}
		asked := pattern
		if val == "" && !strings.Contains(key, "*") {
			asked = key + "_*" // children with "*" are tried before a key without a value, whatever the value is
		} else if !strings.Contains(pattern, "*") {
			continue // exact descriptors are tried before those with "*"
		}
		for _, w := range at.wildcards {
			if b.config.comparedBytes += len(w.pattern) * len(asked); w.pattern == pattern || b.config.comparedBytes > maxComparedBytes {
				break
			}
			if glob(w.parts, []byte(asked)) {
				b.warn(v, "%s never matches: %s on the same level precedes it and matches all of its requests", clip(pattern), clip(w.pattern))
				break
			}
		}
	}
}

// warnReplaces adds a warning for each name in replaces that is not the name of a rule.
func (c *Config) warnReplaces() {
	names := make(map[string]bool)
	for _, r := range c.rules {
		names[r.Name] = true
	}
	most := len(c.warnings) + maxWarnings
	for _, r := range c.rules {
		for _, name := range r.Replaces {
			if !names[name] && len(c.warnings) < most {
				c.warnings = append(c.warnings, Warning{File: r.Path, Message: fmt.Sprintf("replaces unknown rule %s", clip(name))})
			}
		}
	}
	slices.SortStableFunc(c.warnings, func(a, b Warning) int { return strings.Compare(a.File, b.File) })
}

var storeErrorModes = []headgate.OnStoreError{headgate.FailClosed, headgate.FailOpen, headgate.FailLocal}
