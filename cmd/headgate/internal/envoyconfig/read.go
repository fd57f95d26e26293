package envoyconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// reader converts YAML nodes to values.
type reader struct {
	file  string
	count int
	stack []*yaml.Node // nodes that are being read, from the root
}

// readDocument returns the first YAML document of a text, or nil if the text has no
// document. The result more is whether another document follows.
func readDocument(file string, content []byte) (v *value, more bool, wrong *Error) {
	if len(content) > MaxFileBytes {
		return nil, false, loadError(file, 0, 0, fmt.Sprintf("file has more than %d bytes", MaxFileBytes))
	}
	loader, err := yaml.NewLoader(bytes.NewReader(content), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, false, loadError(file, 0, 0, "yaml: "+err.Error())
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, malformed(file, err)
	}
	if len(first.Content) == 0 {
		return nil, false, nil
	}
	r := &reader{file: file}
	v, wrong = r.value(first.Content[0])
	more = !errors.Is(loader.Load(&second), io.EOF)
	return v, more, wrong
}

// malformed converts an error of the YAML loader.
func malformed(file string, err error) *Error {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return loadError(file, 0, 0, "yaml: "+err.Error())
	}
	line, column := load.Mark.Line, load.Mark.Column
	if line == 0 {
		line, column = load.ContextMark.Line, load.ContextMark.Column
	}
	if line == 0 {
		return loadError(file, 0, 0, "yaml: "+load.Message)
	}
	return loadError(file, line, column, fmt.Sprintf("yaml: line %d: %s", line, load.Message))
}

func loadError(file string, line, column int, cause string) *Error {
	return &Error{File: file, Line: line, Column: column, Message: "error loading config file: " + cause}
}

func (r *reader) value(n *yaml.Node) (*value, *Error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.count++
	switch {
	case r.count > maxValues:
		return nil, loadError(r.file, n.Line, n.Column, "yaml: document contains excessive aliasing")
	case slices.Contains(r.stack, n):
		return nil, loadError(r.file, n.Line, n.Column, fmt.Sprintf("yaml: anchor '%s' value contains itself", clip(n.Anchor)))
	case len(r.stack) > maxDepth:
		return nil, loadError(r.file, n.Line, n.Column, "yaml: exceeded max depth")
	}
	r.stack = append(r.stack, n)
	defer func() { r.stack = r.stack[:len(r.stack)-1] }()
	v := &value{line: n.Line, column: n.Column, text: n.Value}
	switch n.Kind {
	case yaml.SequenceNode:
		v.kind = list
		for _, item := range n.Content {
			read, wrong := r.value(item)
			if wrong != nil {
				return nil, wrong
			}
			v.items = append(v.items, read)
		}
	case yaml.MappingNode:
		v.kind = mapping
		return v, r.members(v, n)
	default:
		if cause := v.scalar(n); cause != "" {
			return nil, loadError(r.file, n.Line, n.Column, "yaml: "+cause)
		}
	}
	return v, nil
}

// members reads the keys of a mapping in order. If a key occurs more than once, its
// last value applies, even if that comes from a merged mapping.
func (r *reader) members(v *value, n *yaml.Node) *Error {
	p := mappingBuilder{v, make(map[string]int)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if wrong := r.member(p, n.Content[i], n.Content[i+1]); wrong != nil {
			return wrong
		}
	}
	return nil
}

// mappingBuilder is a mapping that is being read, with the index of each key in its
// members.
type mappingBuilder struct {
	*value
	at map[string]int
}

func (r *reader) member(p mappingBuilder, key, val *yaml.Node) *Error {
	if isMerge(key) {
		return r.merge(p, val)
	}
	k, wrong := r.value(key)
	if wrong != nil {
		return wrong
	}
	if k.kind >= list {
		return loadError(r.file, k.line, k.column, "yaml: invalid map key: "+clip(fmt.Sprintf("%#v", k.generic())))
	}
	to, wrong := r.value(val)
	if wrong != nil {
		return wrong
	}
	p.put(member{k, to})
	return nil
}

// put adds a key, or replaces the value of a key that exists. A second mapping for the
// key rate_limit or metadata extends the first one instead.
func (p mappingBuilder) put(m member) {
	id := m.key.kind.String() + m.key.text
	i, duplicate := p.at[id]
	if !duplicate {
		p.at[id] = len(p.members)
		p.members = append(p.members, m)
		return
	}
	old := p.members[i].value
	if old.kind == mapping && m.value.kind == mapping && (m.key.text == "rate_limit" || m.key.text == "metadata") {
		m.value.base = old
	}
	p.members[i] = m
}

// isMerge reports whether a key is the YAML merge key <<. A quoted "<<" is not.
func isMerge(key *yaml.Node) bool {
	if key.Kind != yaml.ScalarNode || key.Value != "<<" {
		return false
	}
	return key.Style == 0 || key.Tag == "!" || tagOf(key) == "!!merge"
}

// merge merges one mapping, or each mapping of a list, into p. In a list, earlier
// mappings override later ones.
func (r *reader) merge(p mappingBuilder, from *yaml.Node) *Error {
	all := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		all = slices.Clone(from.Content)
		slices.Reverse(all)
	}
	for _, source := range all {
		target := source
		if source.Kind == yaml.AliasNode {
			target = source.Alias
		}
		if target.Kind != yaml.MappingNode {
			return loadError(r.file, from.Line, from.Column, "yaml: map merge requires map or sequence of maps as the value")
		}
		merged, wrong := r.value(source)
		if wrong != nil {
			return wrong
		}
		for _, m := range merged.members {
			p.put(m)
		}
	}
	return nil
}
