package config

import (
	"io"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Print writes the configuration as a file: what is in force, and behind each setting where it came from. The file means the same wherever
// it lies, but for passwords: *** stands for each.
func (c *Config) Print(w io.Writer) error {
	root := c.node(reflect.ValueOf(&c.File).Elem(), "")
	text, err := yaml.Dump(root, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// node is a value as YAML; nil for one that would say nothing.
func (c *Config) node(v reflect.Value, path string) *yaml.Node {
	switch {
	case isLeaf(v.Type()):
		return c.scalar(v, path)
	case v.Kind() == reflect.Struct:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, m := range membersOf(v.Type()) {
			if m.name != "enforce" || v.FieldByIndex(m.index).Interface() != engine.All { // beside shadow it would be refused
				add(n, m.name, c.node(v.FieldByIndex(m.index), join(path, m.name)))
			}
		}
		return filled(n)
	case v.Kind() == reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		names := slices.Sorted(maps.Keys(namesIn(v)))
		for _, name := range names {
			add(n, name, c.node(v.MapIndex(reflect.ValueOf(name)), join(path, plain(name))))
		}
		return filled(n)
	}
	return c.sequence(v, path)
}

func (c *Config) scalar(v reflect.Value, path string) *yaml.Node {
	text := shown(v)
	if text == "" {
		return nil
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if leaves[v.Type()].what == "text" {
		n.Tag = "!!str"
	}
	if origin := c.Origins[path]; origin != "" {
		n.LineComment = "# " + origin
	}
	return n
}

// sequence is a list on one line, unless it holds mappings.
func (c *Config) sequence(v reflect.Value, path string) *yaml.Node {
	if v.Len() == 0 && c.Origins[path] == "" && !isLeaf(v.Type().Elem()) || v.IsNil() && c.Origins[path] == "" {
		return nil
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if isLeaf(v.Type().Elem()) {
		n.Style = yaml.FlowStyle
	}
	for i := range v.Len() {
		if one := c.node(v.Index(i), ""); one != nil {
			n.Content = append(n.Content, one)
		}
	}
	if origin := c.Origins[path]; origin != "" {
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
		to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name, Tag: "!!str"}, n)
	}
}

func filled(n *yaml.Node) *yaml.Node {
	if len(n.Content) == 0 {
		return nil
	}
	return n
}
