package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// A file in short notation (scalars as lists, limit, override keys without prefix)
// equals the file in full notation.
func TestShortNotation(t *testing.T) {
	t.Parallel()
	short := mustLoad(t, `
trusted_proxies: 10.0.0.0/8
envoy: {xds: {node_metadata: zone=a, headers: "x-zone: a"}}
policies:
  api:
    limit: 5/1m
    overrides: {acme: 50/1m, 42: [60/1m], "key:beta": 70/1m, "header:x-api-key=a": 80/1m, "key:key:a": 90/1m}
  login:
    limits: 9/1h
routes:
  - match: {method: POST}
    policies: api
`)
	full := mustLoad(t, `
trusted_proxies: ["10.0.0.0/8"]
envoy: {xds: {node_metadata: ["zone=a"], headers: ["x-zone: a"]}}
policies:
  api:
    limits: ["5/1m"]
    overrides:
      "key:acme": ["50/1m"]
      "key:42": ["60/1m"]
      "key:beta": ["70/1m"]
      "key:header:x-api-key=a": ["80/1m"]
      "key:key:a": ["90/1m"]
  login:
    limits: ["9/1h"]
routes:
  - match: {method: [POST]}
    policies: [api]
`)
	if !reflect.DeepEqual(short.File, full.File) {
		t.Errorf("got\n%+v\nwant\n%+v", short.File, full.File)
	}
}

// Every list in the format accepts a scalar, in the schema as well.
func TestSchemaAcceptsShortNotation(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for name, tree := range map[string]any{
		"trusted_proxies": map[string]any{"trusted_proxies": "10.0.0.0/8"},
		"node_metadata":   map[string]any{"envoy": map[string]any{"xds": map[string]any{"node_metadata": "a=b", "headers": "a: b"}}},
		"limit":           map[string]any{"policies": map[string]any{"p": map[string]any{"limit": []any{"5/s", "6/m"}}}},
		"overrides": map[string]any{"policies": map[string]any{"p": map[string]any{
			"limit": "5/s", "overrides": map[string]any{"acme": "9/s", "key:beta": []any{"9/s"}},
		}}},
		"method": map[string]any{"routes": []any{map[string]any{"match": map[string]any{"method": "GET"}, "policies": []any{}}}},
		"policies": map[string]any{
			"policies": map[string]any{"p": map[string]any{"limits": "5/s"}},
			"routes":   []any{map[string]any{"policies": "p"}},
		},
	} {
		if !judge(t, s, tree) {
			t.Errorf("%s: a scalar is refused", name)
		}
	}
	for name, tree := range map[string]any{
		"limit and limits": map[string]any{"policies": map[string]any{"p": map[string]any{"limit": "5/s", "limits": "6/s"}}},
		"no limit":         map[string]any{"policies": map[string]any{"p": map[string]any{"key": "ip"}}},
	} {
		if judge(t, s, tree) {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A reference to a variable in a text that may contain anything produces a warning.
func TestVariableReferenceWarning(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "resp: {password: \"${RESP_PASSWORD}\"}\nadmin: {token: \"pa$$w{rd}\"}\n")
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "HEADGATE_RESP_PASSWORD") {
		t.Errorf("got warnings %q, want one that names HEADGATE_RESP_PASSWORD", c.Warnings)
	}
	from := config.Sources{Lookup: lookupOf(map[string]string{"HEADGATE_RESP_PASSWORD": "${A}"})}
	if c, err := from.Load(); err != nil || len(c.Warnings) != 0 {
		t.Errorf("a variable's value: got warnings %q and error %v, want none", c.Warnings, err)
	}
}
