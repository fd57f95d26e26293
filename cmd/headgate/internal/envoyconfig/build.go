package envoyconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
)

// File is the text of one file.
type File struct {
	Name    string // what errors call it
	Content []byte
}

// ParseOptions say how files are put together. The zero value of each field is its default; nil means all defaults.
type ParseOptions struct {
	// MergeDomains lets several files say descriptors of one domain.
	MergeDomains bool
	// MaxEntries is the most entries of a descriptor that requests may bring; 0 means [DefaultMaxEntries].
	MaxEntries int
}

// Parse makes a configuration of files, or says what is wrong with them: the error is [Errors]. opts may be nil.
func Parse(files []File, opts *ParseOptions) (*Config, error) {
	return assemble(files, opts, (*Config).add)
}

// assemble makes a configuration of parts, each added by itself.
func assemble[Part any](parts []Part, opts *ParseOptions, add func(c *Config, part Part, merge bool) *Error) (*Config, error) {
	opts = cmp.Or(opts, &ParseOptions{})
	c := &Config{domains: make(map[string]*Domain), maxEntries: cmp.Or(opts.MaxEntries, DefaultMaxEntries)}
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
	root, more, wrong := read(f.Name, f.Content)
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

// build adds what one file says.
func (c *Config) build(file string, root *value, merge bool) *Error {
	b := builder{decoder: decoder{file: file}, config: c}
	b.document(root, merge)
	if b.wrong == nil {
		c.warnings = append(c.warnings, b.warnings...)
	}
	return b.wrong
}

// builder makes the tree of one file.
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
	b.descriptors(&d.top, name+".", root.get("descriptors"), 1)
}

// checkTypes fails for the first value that is of a wrong type, wherever it stands: types come before meaning.
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
			d.yes(v.get(key))
		}
		if r := v.get("rate_limit"); d.mapping(r, inRateLimit) {
			d.number(r.get("requests_per_unit"))
			d.number(r.get("unit_multiplier"))
			d.yes(r.get("unlimited"))
			for _, key := range []string{"unit", "name", "algorithm", "on_store_error"} {
				d.str(r.get(key))
			}
			for _, replaced := range d.list(r.get("replaces")) {
				d.str(replaced.get("name"))
			}
			for _, limit := range d.list(r.get("limits")) {
				d.str(limit)
			}
		}
		if d.wrong != nil {
			return
		}
		d.checkDescriptors(v.get("descriptors"))
	}
}

// descriptors adds a list of them below a node. Parent is what the node is called, with a point behind.
func (b *builder) descriptors(at *node, parent string, from *value, depth int) {
	for _, v := range b.list(from) {
		if b.wrong != nil {
			return
		}
		b.mapping(v, inDescriptor)
		b.descriptor(at, parent, v, depth)
	}
	b.warnCovered(at, from)
}

func (b *builder) descriptor(at *node, parent string, v *value, depth int) {
	key, val := b.str(v.get("key")), b.str(v.get("value"))
	if key == "" {
		b.fail(v, "descriptor has empty key")
		return
	}
	n := &node{pattern: key, shares: b.yes(v.get("share_threshold")), toMetric: b.yes(v.get("value_to_metric"))}
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
	if n.shares && !wild {
		b.fail(v, fmt.Sprintf("share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", n.pattern))
	}
	if at.children == nil {
		at.children = make(map[string]*node)
	}
	at.children[n.pattern] = n
	if wild {
		at.wildcards = append(at.wildcards, n)
	}
	if most := b.config.maxEntries; depth == most+1 {
		b.warn(v, "it can never match: descriptors of more than %d entries are refused", most)
	}
	first := len(b.config.rules)
	b.descriptors(n, path+".", v.get("descriptors"), depth+1)
	b.vary(n, first)
}

// vary tells the rules of a node, and those below it, that their counters have names that depend on the request.
func (b *builder) vary(n *node, first int) {
	if !n.toMetric {
		return
	}
	if n.rule != nil {
		n.rule.variable = true
	}
	for _, r := range b.config.rules[first:] {
		r.variable = true
	}
}

// rule reads what a descriptor says of limits; nil if that is nothing.
func (b *builder) rule(v *value, path string) *Rule {
	from := v.get("rate_limit")
	if !b.mapping(from, inRateLimit) {
		b.unruled(v)
		return nil
	}
	r := &Rule{
		Name:      b.str(from.get("name")),
		Unlimited: b.yes(from.get("unlimited")),
		Shadow:    b.yes(v.get("shadow_mode")),
		Quota:     b.yes(v.get("quota_mode")),
		Detailed:  b.yes(v.get("detailed_metric")),
		Path:      path,
		Index:     len(b.config.rules),
	}
	b.limits(r, from)
	for _, replaced := range b.list(from.get("replaces")) {
		b.mapping(replaced, inReplaces)
		b.replaces(r, replaced)
	}
	r.Metadata = b.metadata(v.get("metadata"))
	b.config.rules = append(b.config.rules, r)
	if b.config.named += len(path); b.config.named > mostNamed {
		b.fail(v, fmt.Sprintf("the names of all rules, domain.key_value.key, have more than %d bytes", mostNamed))
	}
	return r
}

// unruled warns of what has no meaning without a rate_limit.
func (b *builder) unruled(v *value) {
	for _, key := range []string{"shadow_mode", "quota_mode", "detailed_metric", "metadata"} {
		if at := v.get(key); at != nil && (at.yes || at.kind >= list) {
			b.warn(at, "%s says nothing in a descriptor without a rate_limit", key)
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

// metadata is any mapping, as answers carry it.
func (b *builder) metadata(v *value) *structpb.Struct {
	if v == nil || v.kind == null {
		return nil
	}
	if v.kind != mapping {
		b.fail(v, fmt.Sprintf("error parsing metadata: it is no mapping, but %s", v.kind))
		return nil
	}
	made, err := structpb.NewStruct(b.plainMap(v))
	if err != nil {
		b.fail(v, "error parsing metadata: "+err.Error())
	}
	return made
}

func (b *builder) plainMap(v *value) map[string]any {
	m := make(map[string]any, len(v.members))
	if v.before != nil {
		m = b.plainMap(v.before)
	}
	for _, one := range v.members {
		if one.key.kind != text {
			b.fail(one.key, "error parsing metadata: key is not of type string: "+one.key.understood())
		}
		m[one.key.text] = b.plain(one.value)
	}
	return m
}

// plain is a value of metadata as the library has it.
func (b *builder) plain(v *value) any {
	switch v.kind {
	case list:
		items := make([]any, len(v.items))
		for i, item := range v.items {
			items[i] = b.plain(item)
		}
		return items
	case mapping:
		return b.plainMap(v)
	}
	return v.generic()
}

// warnCovered tells of descriptors that can never match, as another of the level always comes first. Each is held against all that have a
// *, for as long as that takes no more than it should.
func (b *builder) warnCovered(at *node, from *value) {
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
			asked = key + "_*" // a key alone is asked for last, with any value
		} else if !strings.Contains(pattern, "*") {
			continue // what is said exactly comes first
		}
		for _, w := range at.wildcards {
			if b.config.compared += len(w.pattern) * len(asked); w.pattern == pattern || b.config.compared > mostCompared {
				break
			}
			if glob(w.pattern, []byte(asked)) {
				b.warn(v, "%s can never match: %s of the same level comes before it and matches all of it", clip(pattern), clip(w.pattern))
				break
			}
		}
	}
}

// warnReplaces tells of names that no rule has.
func (c *Config) warnReplaces() {
	names := make(map[string]bool)
	for _, r := range c.rules {
		names[r.Name] = true
	}
	most := len(c.warnings) + mostWarnings
	for _, r := range c.rules {
		for _, name := range r.Replaces {
			if !names[name] && len(c.warnings) < most {
				c.warnings = append(c.warnings, Warning{File: r.Path, Message: fmt.Sprintf("replaces %s, and no rule has that name", clip(name))})
			}
		}
	}
	slices.SortStableFunc(c.warnings, func(a, b Warning) int { return strings.Compare(a.File, b.File) })
}

var modes = []headgate.OnStoreError{headgate.FailClosed, headgate.FailOpen, headgate.FailLocal}
