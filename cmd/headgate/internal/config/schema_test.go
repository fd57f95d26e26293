package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("headgate.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("headgate.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// judge compares the schema with Parse: the schema accepts every file that Parse
// accepts, and refuses every file with an error that the schema should find.
func judge(t *testing.T, s *jsonschema.Schema, tree any) (accepted bool) {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	refused := s.Validate(doc)
	_, err = config.Parse("f.yaml", text)
	var all config.Errors
	errors.As(err, &all)
	misshapen := slices.ContainsFunc(all, (*config.Error).Shape)
	switch {
	case refused != nil && err == nil:
		t.Fatalf("%s\nthe reader accepts it; the schema says: %v", text, refused)
	case refused == nil && misshapen:
		t.Fatalf("%s\nthe schema accepts it; the reader says:\n%v", text, err)
	}
	return err == nil
}

func TestSchemaMatchesParse(t *testing.T) {
	t.Parallel()
	s := schema(t)
	text, err := os.ReadFile(config.FullFile)
	if err != nil {
		t.Fatal(err)
	}
	var full map[string]any
	if err := yaml.Load(text, &full); err != nil {
		t.Fatal(err)
	}
	if !judge(t, s, full) {
		t.Fatal("the full file is refused")
	}
	rounds := 1_000
	if testing.Short() {
		rounds = 300
	}
	m := mutator{rand.New(rand.NewPCG(1, 2))}
	fine := 0
	for range rounds {
		tree := clone(full)
		for range 1 + m.IntN(2) {
			tree = m.mutate(tree)
		}
		if judge(t, s, tree) {
			fine++
		}
	}
	if fine < rounds/50 || fine > rounds*9/10 {
		t.Errorf("%d of %d mutated files were fine: too few or too many to show anything", fine, rounds)
	}
}

// The schema refuses the files of testdata/errors.txt with errors that it should find.
func TestSchemaRefusesInvalidFiles(t *testing.T) {
	t.Parallel()
	s := schema(t)
	_, all := invalidFiles(t)
	judged := 0
	for _, c := range all {
		var tree any
		if strings.Contains(c.text, "!") || strings.Contains(c.text, "&") || yaml.Load([]byte(c.text), &tree) != nil {
			continue // what is wrong as YAML
		}
		if _, err := json.Marshal(tree); err != nil {
			continue // a key that is no text
		}
		judge(t, s, tree)
		judged++
	}
	if judged < 90 {
		t.Errorf("%d files were judged, want most of %d", judged, len(all))
	}
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = clone(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = clone(e)
		}
		return c
	}
	return v
}

type mutator struct{ *rand.Rand }

var odd = []any{
	"", "x", "5/s", " 5 / 1m burst 3 ", "5/15min", "5/15minuts", "5 per 2 Minutes", "5 PER day BURST 3", "5 perday", "5per week", "5/month", "5/months", "5/day in Europe/Berlin from 06:00", "5/week FROM Sunday", "5/s queue 2", "0/s", 5, 1.5, -1, 0, 32, 1025, 1 << 40, true, false, nil,
	[]any{},
	map[string]any{},
	[]any{"5/s"},
	[]any{"login"},
	"ip", "ip+path, header:X-A", "header:", "off", "on", "10.0.0.0/8", "10.0.0.1", "1.2.3.4/33", "/x", "/a/*/**", "x/y",
	"*.a.b", "*", "a:80", "[::1]", "[::1]:80", ":0", "25%", "100%", "100.1%", "1.23456%", "5s", "1m30s", "5", "-5s", "1µs", "0s", "999999h", "key:a", " ", "ü",
	"a\nb", "GET", "get", "G T", "memory", "redis://a b", "sliding_log", "token-bucket", "local", "closed", strings.Repeat("k", 300), "login", "api",
}

func (m mutator) mutate(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return m.mutateMap(v)
	case []any:
		return m.mutateList(v)
	}
	return odd[m.IntN(len(odd))]
}

func (m mutator) mutateMap(v map[string]any) any {
	keys := slices.Sorted(maps.Keys(v))
	if len(keys) == 0 {
		return odd[m.IntN(len(odd))]
	}
	key := keys[m.IntN(len(keys))]
	switch m.IntN(12) {
	case 0:
		delete(v, key)
	case 1:
		v[key+"s"] = v[key]
	case 2:
		v[[]string{"", "limits", "policies", "key:b", "a b", " a", "a\tb", "path", "shadow"}[m.IntN(9)]] = clone(v[key])
	case 3:
		v[key] = odd[m.IntN(len(odd))]
	default:
		v[key] = m.mutate(v[key])
	}
	return v
}

func (m mutator) mutateList(v []any) any {
	if len(v) == 0 {
		return []any{odd[m.IntN(len(odd))]}
	}
	i := m.IntN(len(v))
	switch m.IntN(8) {
	case 0:
		return slices.Delete(v, i, i+1)
	case 1:
		return append(v, clone(v[i]))
	case 2:
		return slices.Repeat(v, 34/len(v)+1)
	case 3:
		return odd[m.IntN(len(odd))]
	}
	v[i] = m.mutate(v[i])
	return v
}
