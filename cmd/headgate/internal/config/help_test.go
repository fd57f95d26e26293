package config_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// described is a part of the JSON Schema.
type described struct {
	Description          string
	Properties           map[string]described
	AnyOf                []described `json:"anyOf"`
	Items                *described
	AdditionalProperties json.RawMessage
}

// describe adds the description of every key below a path.
func (d *described) describe(t *testing.T, all map[string]string, path string) {
	for name, property := range d.Properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		all[at] = property.Description
		property.describe(t, all, at)
	}
	for _, form := range d.AnyOf {
		form.describe(t, all, path)
	}
	if d.Items != nil {
		d.Items.describe(t, all, path+"[]")
	}
	if len(d.AdditionalProperties) > 0 && d.AdditionalProperties[0] == '{' {
		var values described
		if err := json.Unmarshal(d.AdditionalProperties, &values); err != nil {
			t.Fatal(err)
		}
		values.describe(t, all, path+".NAME")
	}
}

func TestEverySettingHasOneLineOfHelp(t *testing.T) {
	t.Parallel()
	var schema described
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	schema.describe(t, all, "")
	for path, text := range all {
		help := config.Helps[path]
		if help == "" || text != strings.ToUpper(help[:1])+help[1:] {
			t.Errorf("%s: help %q, description in the schema %q", path, help, text)
		}
	}
	for _, s := range config.Settings() {
		if s.Help == "" || s.Help != config.Helps[s.Path] {
			t.Errorf("%s: help %q of the flag, %q of the path", s.Path, s.Help, config.Helps[s.Path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(config.Helps)) {
		help := config.Helps[path]
		if _, there := all[path]; !there {
			t.Errorf("%s: help for a key that is none", path)
		}
		if n := utf8.RuneCountInString(help); n > 80 || strings.ContainsAny(help, "\n`") || strings.HasSuffix(help, ".") {
			t.Errorf("%s: help of %d characters: %q; want one line of at most 80 without a full stop", path, n, help)
		}
	}
}
