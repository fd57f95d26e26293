package dependencies_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// repository is the path of the repository's root, relative to this folder.
const repository = "../.."

// allRules returns the rules of all modules.
func allRules() ruleSet {
	rules := ruleSet{
		packages:   maps.Clone(libraryRules),
		thirdParty: maps.Clone(libraryThirdParty),
		free:       []string{"bench", "examples", "tools/collector", "tools/release", "tools/traefik"},
	}
	maps.Copy(rules.packages, serviceRules)
	maps.Copy(rules.thirdParty, serviceThirdParty)
	return rules
}

func TestImportRules(t *testing.T) {
	t.Parallel()
	files, err := sourceFiles(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	rules := allRules()
	for _, violation := range rules.violations(files) {
		t.Error(violation)
	}
	for _, contradiction := range rules.contradictions() {
		t.Error(contradiction)
	}
}

// smallRules is a small table for tests of the checker.
func smallRules() ruleSet {
	return ruleSet{
		packages: map[string]packageRule{
			".":        {why: "small", tests: []string{"memstore"}},
			"memstore": {why: "a store", code: []string{"."}, tests: []string{"storetest"}},
		},
		thirdParty: map[string]thirdPartyRule{
			"go.uber.org/goleak": {why: "leaks", tests: []string{"."}},
		},
		free: []string{"bench"},
	}
}

func TestViolationsAreReported(t *testing.T) {
	t.Parallel()
	clean := map[string]string{
		"limit.go": `package headgate; import "time"`,
		"limit_test.go": `package headgate_test; import ("testing"; "github.com/headgate/headgate";
			"github.com/headgate/headgate/memstore"; "go.uber.org/goleak")`,
		"memstore/store.go":      `package memstore; import ("net/http"; "github.com/headgate/headgate")`,
		"memstore/store_test.go": `package memstore_test; import ("github.com/headgate/headgate/memstore"; "github.com/headgate/headgate/storetest")`,
		"bench/bench.go":         `package bench; import ("github.com/headgate/headgate/memstore"; "github.com/google/uuid")`,
	}
	for _, c := range []struct {
		name, file, text string
		want             string // part of the only violation; empty if there is none
	}{
		{"nothing", "limit.go", clean["limit.go"], ""},
		{"the root imports a package of ours", "wait.go", `package headgate; import "github.com/headgate/headgate/memstore"`, "wait.go imports github.com/headgate/headgate/memstore: the rule of . does not list it (small)"},
		{"a module without a rule", "wait.go", `package headgate; import "github.com/google/uuid"`, "has no rule"},
		{"a test dependency in code", "wait.go", `package headgate; import "go.uber.org/goleak"`, "does not list . (leaks)"},
		{"a renamed import", "wait.go", `package headgate; import m "github.com/headgate/headgate/memstore"`, "wait.go imports"},
		{"an import for its side effects", "wait.go", `package headgate; import _ "github.com/lib/pq"`, "wait.go imports github.com/lib/pq"},
		{"behind a build tag", "wait_plan9.go", "//go:build never\n\npackage headgate\n\nimport `github.com/lib/pq`", "imports github.com/lib/pq"},
		{"a sibling", "memstore/log.go", `package memstore; import "github.com/headgate/headgate/replay"`, "the rule of memstore does not list it (a store)"},
		{"a sibling in a test", "memstore/log_test.go", `package memstore; import "github.com/headgate/headgate/replay"`, "memstore/log_test.go imports"},
		{"a module whose path begins like ours", "memstore/log.go", `package memstore; import "github.com/headgate/headgate2"`, "has no rule"},
		{"a package without a rule", "redisstore/store.go", `package redisstore; import "github.com/headgate/headgate"`, "package redisstore has no rule"},
		{"a benchmark imports internal code", "bench/x.go", `package bench; import "github.com/headgate/headgate/internal/key"`, "what users can import"},
		{"a benchmark imports the command", "bench/x.go", `package bench; import "github.com/headgate/headgate/cmd/headgate"`, "what users can import"},
		{"a benchmark imports its own internal code", "bench/x.go", `package bench; import "github.com/headgate/headgate/bench/internal/x"`, ""},
	} {
		files := maps.Clone(clean)
		files[c.file] = c.text
		var parsed []sourceFile
		for name, text := range files {
			file, err := parseImports(name, text)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			parsed = append(parsed, file)
		}
		got := strings.Join(smallRules().violations(parsed), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want one violation with %q", c.name, got, c.want)
		}
	}
}

func TestRulesWithoutPackagesAreReported(t *testing.T) {
	t.Parallel()
	got := smallRules().violations(nil)
	want := []string{
		"there is a rule for package ., which does not exist",
		"there is a rule for package memstore, which does not exist",
		"there is a rule for module go.uber.org/goleak, which nothing imports",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCheckerLoadsAllModules(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files, err := sourceFiles(fstest.MapFS{
		"go.mod":                      file("module m"),
		"limit.go":                    file(`package m; import "a.org/a"`),
		"cmd/headgate/go.mod":         file("module m/cmd/headgate"),
		"cmd/headgate/x/deep.go":      file(`package deep; import "b.org/b"`),
		"cmd/headgate/x/deep_test.go": file("package x"),
		"algo/testdata/sample.go":     file(`package sample`),
		".cache/gen.go":               file("package gen"),
		"_old/old.go":                 file("package old"),
		"README.md":                   file("package readme"),
	})
	var got []string
	for _, f := range files {
		got = append(got, fmt.Sprint(f.name, f.imports))
	}
	want := []string{"cmd/headgate/x/deep.go[b.org/b]", "cmd/headgate/x/deep_test.go[]", "limit.go[a.org/a]"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, error %v; want %q", got, err, want)
	}
	if _, err := sourceFiles(fstest.MapFS{"broken.go": file("package")}); err == nil {
		t.Error("a file with a syntax error: got no error")
	}
}

func TestTableDoesNotContradictFixedRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder string
		rule   packageRule
		want   string
	}{
		{"memstore", packageRule{why: "a store", code: []string{".", "algo"}}, ""},
		{".", packageRule{why: "the root", code: []string{"internal/turn"}}, ""},
		{"memstore", packageRule{code: []string{"."}}, "without a reason"},
		{".", packageRule{why: "the root", code: []string{"algo"}}, "the root imports the standard library"},
		{"replay", packageRule{why: "logs", code: []string{".", "memstore"}}, "siblings never import each other"},
		{service("httpapi"), packageRule{why: "an interface", code: []string{service("respapi")}}, "siblings never import each other"},
		{service("httpapi"), packageRule{why: "an interface", code: []string{"memstore"}}, "siblings never import each other"},
		{"storetest/model", packageRule{why: "the model", code: []string{"algo"}}, "siblings never import each other"},
		{"memstore", packageRule{why: "a store", code: []string{service("engine")}}, "only the service imports the service"},
		{service("engine"), packageRule{why: "it decides", code: []string{"cmd/headgate"}}, "nothing imports a command"},
	} {
		rules := ruleSet{packages: map[string]packageRule{
			"internal/turn": {why: "time"}, "algo": {why: "arithmetic", code: []string{"."}}, c.folder: c.rule,
		}}
		got := strings.Join(rules.contradictions(), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s may import %v: got %q, want %q", c.folder, c.rule.code, got, c.want)
		}
	}
	thirdParty := ruleSet{thirdParty: map[string]thirdPartyRule{"a.org/a": {why: "speed", code: []string{"algo"}}, "b.org/b": {}}}
	if got := thirdParty.contradictions(); len(got) != 2 {
		t.Errorf("third party in algo, and a module without a reason: got %q, want two contradictions", got)
	}
}
