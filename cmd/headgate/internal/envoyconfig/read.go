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

// reader turns nodes of YAML into values.
type reader struct {
	file  string
	count int
	open  []*yaml.Node // whose values are being read
}

// read is the first document of a text, and whether another follows; nil if the text holds nothing.
func read(file string, content []byte) (v *value, more bool, wrong *Error) {
	if len(content) > MaxFileBytes {
		return nil, false, loading(file, 0, 0, fmt.Sprintf("it has %d bytes; accepted are at most %d", len(content), MaxFileBytes))
	}
	loader, err := yaml.NewLoader(bytes.NewReader(content), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(mostDepth))))
	if err != nil {
		return nil, false, loading(file, 0, 0, "yaml: "+err.Error())
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

// malformed is the error of a text that is no YAML.
func malformed(file string, err error) *Error {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return loading(file, 0, 0, "yaml: "+err.Error())
	}
	line, column := load.Mark.Line, load.Mark.Column
	if line == 0 {
		line, column = load.ContextMark.Line, load.ContextMark.Column
	}
	if line == 0 {
		return loading(file, 0, 0, "yaml: "+load.Message)
	}
	return loading(file, line, column, fmt.Sprintf("yaml: line %d: %s", line, load.Message))
}

func loading(file string, line, column int, cause string) *Error {
	return &Error{file, line, column, "error loading config file: " + cause}
}

func (r *reader) value(n *yaml.Node) (*value, *Error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	r.count++
	switch {
	case r.count > mostValues:
		return nil, loading(r.file, n.Line, n.Column, "yaml: document contains excessive aliasing")
	case slices.Contains(r.open, n):
		return nil, loading(r.file, n.Line, n.Column, fmt.Sprintf("yaml: anchor '%s' value contains itself", clip(n.Anchor)))
	case len(r.open) > mostDepth:
		return nil, loading(r.file, n.Line, n.Column, "yaml: exceeded max depth")
	}
	r.open = append(r.open, n)
	defer func() { r.open = r.open[:len(r.open)-1] }()
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
			return nil, loading(r.file, n.Line, n.Column, "yaml: "+cause)
		}
	}
	return v, nil
}

// members reads a mapping, key after key: of one that stands there twice the last value counts, whether it stands there or in a mapping
// that is merged.
func (r *reader) members(v *value, n *yaml.Node) *Error {
	p := pairs{v, make(map[string]int)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if wrong := r.member(p, n.Content[i], n.Content[i+1]); wrong != nil {
			return wrong
		}
	}
	return nil
}

// pairs are a mapping that is being read, and where its keys are.
type pairs struct {
	*value
	at map[string]int
}

func (r *reader) member(p pairs, key, val *yaml.Node) *Error {
	if merges(key) {
		return r.merge(p, val)
	}
	k, wrong := r.value(key)
	if wrong != nil {
		return wrong
	}
	if k.kind >= list {
		return loading(r.file, k.line, k.column, "yaml: invalid map key: "+clip(fmt.Sprintf("%#v", k.generic())))
	}
	to, wrong := r.value(val)
	if wrong != nil {
		return wrong
	}
	p.put(member{k, to})
	return nil
}

// put adds a key, or gives one that is there already another value. A rate_limit is read over the one before, and so is metadata.
func (p pairs) put(m member) {
	id := m.key.kind.String() + m.key.text
	i, twice := p.at[id]
	if !twice {
		p.at[id] = len(p.members)
		p.members = append(p.members, m)
		return
	}
	there := p.members[i].value
	if there.kind == mapping && m.value.kind == mapping && (m.key.text == "rate_limit" || m.key.text == "metadata") {
		m.value.before = there
	}
	p.members[i] = m
}

// merges reports whether a key is that of a merge: <<, and no text that looks like it.
func merges(key *yaml.Node) bool {
	if key.Kind != yaml.ScalarNode || key.Value != "<<" {
		return false
	}
	return key.Style == 0 || key.Tag == "!" || tagOf(key) == "!!merge"
}

// merge reads a mapping into another, or several of which the first counts most.
func (r *reader) merge(p pairs, from *yaml.Node) *Error {
	all := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		all = slices.Clone(from.Content)
		slices.Reverse(all)
	}
	for _, one := range all {
		target := one
		if one.Kind == yaml.AliasNode {
			target = one.Alias
		}
		if target.Kind != yaml.MappingNode {
			return loading(r.file, from.Line, from.Column, "yaml: map merge requires map or sequence of maps as the value")
		}
		merged, wrong := r.value(one)
		if wrong != nil {
			return wrong
		}
		for _, m := range merged.members {
			p.put(m)
		}
	}
	return nil
}
