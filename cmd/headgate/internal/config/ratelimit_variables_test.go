package config_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// variable is one line of testdata/ratelimit_variables.txt.
type variable struct {
	name, effect   string
	set, context   map[string]string // the variable with a value; the variables that it requires
	path, belongTo string
}

func ratelimitVariables(t *testing.T) (all []variable) {
	t.Helper()
	text, err := os.ReadFile("testdata/ratelimit_variables.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, "|")
		if len(columns) != 4 {
			t.Fatalf("%q has %d columns; want 4", line, len(columns))
		}
		v := variable{name: strings.TrimSpace(columns[0]), set: variablesOf(columns[2]), context: variablesOf(columns[3])}
		v.effect, v.path, _ = strings.Cut(strings.TrimSpace(columns[1]), " ")
		v.belongTo = strings.TrimPrefix(v.path, "to ")
		all = append(all, v)
	}
	return all
}

// Every variable of envoyproxy/ratelimit sets a setting, is reported by its name, or is
// documented as not needed.
func TestRatelimitVariables(t *testing.T) {
	t.Parallel()
	all := ratelimitVariables(t)
	if len(all) < 120 {
		t.Fatalf("%d variables; want all", len(all))
	}
	docs, err := os.ReadFile("../../../../docs/reference/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if !documented(string(docs), v.name) {
			t.Errorf("docs/reference/envoy.md does not contain %s", v.name)
		}
		v.check(t, all)
	}
}

// check verifies the effect of a variable.
func (v *variable) check(t *testing.T, all []variable) {
	t.Helper()
	before, err := loadRatelimit(v.context)
	if err != nil && v.name != "MEMCACHE_SRV" && v.name != "MEMCACHE_HOST_PORT" {
		t.Errorf("%s: without it: %v", v.name, err)
	}
	env := maps.Clone(v.context)
	maps.Copy(env, v.set)
	after, err := loadRatelimit(env)
	named := func(w string) bool { return strings.Contains(w, v.name) }
	switch v.effect {
	case "sets":
		if err != nil || before != nil && settingOf(before, v.path) == settingOf(after, v.path) {
			t.Errorf("%v: %s does not change, error %v", env, v.path, err)
		}
	case "warns":
		if err != nil || !slices.ContainsFunc(after.Warnings, named) {
			t.Errorf("%v: error %v; want a warning with the name", env, err)
		}
	case "fails":
		if err == nil || !named(err.Error()) {
			t.Errorf("%v: error %v; want one with the name", env, err)
		}
	case "belongs":
		if !slices.ContainsFunc(all, func(o variable) bool { return o.name == v.belongTo && (o.effect == "warns" || o.effect == "fails") }) {
			t.Errorf("%s belongs to %s, which neither warns nor fails", v.name, v.belongTo)
		}
	case "not":
		if err != nil || len(after.Warnings) > len(before.Warnings) || printOf(before) != printOf(after) {
			t.Errorf("%v: error %v, or the configuration changes", env, err)
		}
	default:
		t.Errorf("%s: unknown effect %s", v.name, v.effect)
	}
}

func loadRatelimit(env map[string]string) (*config.Config, error) {
	from := config.Sources{Ratelimit: true, Lookup: lookupOf(env)}
	return from.Load()
}

// settingOf returns the value of a setting, with secrets.
func settingOf(c *config.Config, path string) string {
	if path == "store" {
		return string(c.Store)
	}
	for _, s := range config.Settings() {
		if s.Path == path {
			return s.Text(&c.File)
		}
	}
	return "no such setting"
}

func printOf(c *config.Config) (text string) {
	for _, s := range config.Settings() {
		text += s.Path + "=" + settingOf(c, s.Path) + "\n"
	}
	return text
}

var codeSpan = regexp.MustCompile("`([A-Z][A-Z0-9_]*)(\\*?)[`=]")

// documented reports whether a page contains a name in a code span, or a prefix of the
// name that ends with “*”.
func documented(page, name string) bool {
	return slices.ContainsFunc(codeSpan.FindAllStringSubmatch(page, -1), func(m []string) bool {
		return m[1] == name || m[2] == "*" && strings.HasPrefix(name, m[1])
	})
}
