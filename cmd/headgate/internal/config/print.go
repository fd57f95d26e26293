package config

import (
	"io"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Print writes the effective configuration as a configuration file, with the origin of
// each setting as a comment. It writes absolute paths, so that the file has the same
// meaning in any folder, and replaces secrets by ***.
func (c *Config) Print(w io.Writer) error {
	return write(w, c.node(reflect.ValueOf(&c.File).Elem(), ""))
}

// PrintChanged is like Print without the settings that have their defaults. If there is
// no other setting, it writes an empty configuration.
func (c *Config) PrintChanged(w io.Writer) error {
	root := changed(c.node(reflect.ValueOf(&c.File).Elem(), ""))
	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	}
	return write(w, root)
}

// changed removes the settings of a mapping that have their defaults. It returns nil if
// no setting is left.
func changed(n *yaml.Node) *yaml.Node {
	switch {
	case n == nil || n.LineComment == "# default":
		return nil
	case n.Kind != yaml.MappingNode:
		return n
	}
	kept := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(n.Content); i += 2 {
		add(kept, n.Content[i].Value, changed(n.Content[i+1]))
	}
	return orNil(kept)
}

func write(w io.Writer, root *yaml.Node) error {
	text, err := yaml.Dump(root, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// node returns a value as YAML, or nil if the printed configuration omits the value.
func (c *Config) node(v reflect.Value, path string) *yaml.Node {
	switch {
	case isLeaf(v.Type()):
		return c.scalar(v, path)
	case v.Kind() == reflect.Struct:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, m := range membersOf(v.Type()) {
			field := v.FieldByIndex(m.index)
			if isOmitted(m.name, field) {
				continue
			}
			add(n, m.name, c.node(field, join(path, m.name)))
		}
		return orNil(n)
	case v.Kind() == reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range slices.Sorted(maps.Keys(namesIn(v))) {
			add(n, name, c.node(v.MapIndex(reflect.ValueOf(name)), join(path, plain(name))))
		}
		return orNil(n)
	}
	return c.sequence(v, path)
}

// defaultWarnAt is the default of warn_at.
const defaultWarnAt = 8 * engine.All / 10

// isOmitted reports whether a field of a policy or of a route is omitted, because it has
// its default.
func isOmitted(name string, v reflect.Value) bool {
	switch name {
	case "enforce": // a policy with shadow: true must not have it
		return v.Interface() == engine.All
	case "holds":
		return v.Interface() == preset(v.Type()).Interface()
	case "lease":
		return !v.Interface().(Lease).On
	case "warn_at":
		return v.Interface() == defaultWarnAt
	case "ban":
		return v.Interface().(Ban).After == 0
	case "hold":
		return v.IsZero()
	default:
		return false
	}
}

func (c *Config) scalar(v reflect.Value, path string) *yaml.Node {
	text := formatValue(v)
	if text == "" {
		return nil
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if leaves[v.Type()].kind == kindString {
		n.Tag = "!!str"
	}
	if origin := c.Origins[path]; origin != "" {
		n.LineComment = "# " + origin
	}
	return n
}

// sequence returns a list as YAML. It is in one line if its elements are scalars.
func (c *Config) sequence(v reflect.Value, path string) *yaml.Node {
	simple, origin := isLeaf(v.Type().Elem()), c.Origins[path]
	if origin == "" && (v.IsNil() || v.Len() == 0 && !simple) {
		return nil
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if simple {
		n.Style = yaml.FlowStyle
	}
	for i := range v.Len() {
		if entry := c.node(v.Index(i), ""); entry != nil {
			n.Content = append(n.Content, entry)
		}
	}
	if origin != "" {
		n.LineComment = "# " + origin
	}
	return n
}

func namesIn(v reflect.Value) map[string]bool {
	names := make(map[string]bool, v.Len())
	for _, k := range v.MapKeys() {
		names[k.String()] = true
	}
	return names
}

func add(to *yaml.Node, name string, n *yaml.Node) {
	if n != nil {
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: name, Tag: "!!str"}
		to.Content = append(to.Content, key, n)
	}
}

// orNil returns n, or nil if n is empty.
func orNil(n *yaml.Node) *yaml.Node {
	if len(n.Content) == 0 {
		return nil
	}
	return n
}
