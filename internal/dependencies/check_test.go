// Package dependencies_test checks which packages may import which, in all modules of
// this repository. It reads the source files itself, so it also checks files with build
// tags.
package dependencies_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const modulePath = "github.com/headgate/headgate"

// packageRule lists which packages of this repository a package may import. Packages
// are named by their folder, the root by ".". Every package may import the standard
// library.
type packageRule struct {
	why   string   // why the package may import exactly these
	code  []string // what its code may import
	tests []string // what its tests may import in addition; a test may always import its own package
}

// thirdPartyRule lists which packages may import a third-party module.
type thirdPartyRule struct {
	why   string
	code  []string // packages whose code and tests may import it
	tests []string // packages whose tests may import it
}

// ruleSet contains all rules.
type ruleSet struct {
	packages   map[string]packageRule
	thirdParty map[string]thirdPartyRule // by module path; the longest match applies
	free       []string                  // folders of never tagged modules; may import any exported package
}

// sourceFile is a Go file and its imports.
type sourceFile struct {
	name    string // from the repository's root, with slashes
	imports []string
}

func (f sourceFile) folder() string { return path.Dir(f.name) }

func (f sourceFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// parseImports reads the imports of one file. text is as for [parser.ParseFile].
func parseImports(name string, text any) (sourceFile, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil {
		return sourceFile{}, err
	}
	file := sourceFile{name: name}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return sourceFile{}, err
		}
		file.imports = append(file.imports, imported)
	}
	return file, nil
}

// sourceFiles reads every Go file below root, in all modules. Folders that the go
// command ignores are skipped.
func sourceFiles(root fs.FS) (files []sourceFile, err error) {
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (entry.Name() == "testdata" || strings.ContainsAny(entry.Name()[:1], "._")):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parseImports(name, text)
		files = append(files, file)
		return err
	})
	return files, err
}

// localName returns the folder of a package of this repository, and whether imported is
// one.
func localName(imported string) (folder string, ours bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

func isStandardLibrary(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// violations lists the imports that break the rules, packages without a rule, and rules
// without a package.
func (rules ruleSet) violations(files []sourceFile) (found []string) {
	seen := make(map[string]bool)
	used := make(map[string]bool)
	for _, file := range files {
		folder := file.folder()
		_, ruled := rules.packages[folder]
		if !ruled && !rules.isFree(folder) && !seen[folder] {
			found = append(found, fmt.Sprintf("package %s has no rule: add it to the table with what it may import, and why", folder))
		}
		seen[folder] = true
		for _, imported := range file.imports {
			if why := rules.refuse(file, imported, used); why != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", file.name, imported, why))
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(rules.packages)) {
		if !seen[folder] {
			found = append(found, fmt.Sprintf("there is a rule for package %s, which does not exist", folder))
		}
	}
	for _, module := range slices.Sorted(maps.Keys(rules.thirdParty)) {
		if !used[module] {
			found = append(found, fmt.Sprintf("there is a rule for module %s, which nothing imports", module))
		}
	}
	return found
}

// refuse returns why file may not import imported; it is empty if it may. It adds
// third-party modules to used.
func (rules ruleSet) refuse(file sourceFile, imported string, used map[string]bool) string {
	if isStandardLibrary(imported) {
		return ""
	}
	folder := file.folder()
	name, ours := localName(imported)
	switch {
	case !ours:
		return rules.refuseThirdParty(file, imported, used)
	case rules.isFree(folder):
		return rules.refuseFree(file, name)
	}
	rule, ruled := rules.packages[folder]
	allowed := !ruled || slices.Contains(rule.code, name) ||
		file.isTest() && (name == folder || slices.Contains(rule.tests, name))
	if allowed {
		return ""
	}
	return fmt.Sprintf("the rule of %s does not list it (%s)", folder, rule.why)
}

func (rules ruleSet) refuseThirdParty(file sourceFile, imported string, used map[string]bool) string {
	if rules.isFree(file.folder()) {
		return ""
	}
	module := rules.moduleOf(imported)
	rule, ruled := rules.thirdParty[module]
	if !ruled {
		return "this third-party module has no rule"
	}
	used[module] = true
	if slices.Contains(rule.code, file.folder()) || file.isTest() && slices.Contains(rule.tests, file.folder()) {
		return ""
	}
	return fmt.Sprintf("the rule of %s does not list %s (%s)", module, file.folder(), rule.why)
}

// refuseFree returns why a file of a module that is never tagged may not import name.
// Tests may start real servers.
func (rules ruleSet) refuseFree(file sourceFile, name string) string {
	if file.isTest() && name == "internal/testserver" {
		return ""
	}
	inModule := func(folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }
	isInternal := strings.Contains("/"+name+"/", "/internal/")
	if isInternal && !slices.ContainsFunc(rules.free, inModule) || inModule("cmd") {
		return "programs that are not tagged show what users can import"
	}
	return ""
}

// moduleOf returns the longest module path in the table that imported belongs to.
func (rules ruleSet) moduleOf(imported string) (longest string) {
	for module := range rules.thirdParty {
		if len(module) > len(longest) && (imported == module || strings.HasPrefix(imported, module+"/")) {
			longest = module
		}
	}
	return longest
}

func (rules ruleSet) isFree(folder string) bool {
	return slices.ContainsFunc(rules.free, func(free string) bool {
		return folder == free || strings.HasPrefix(folder, free+"/")
	})
}

// siblings are groups of packages that never import each other in code, regardless of the
// table.
var siblings = map[string][]string{
	"stores":                               {"memstore", "redisstore", "memcachedstore", "fallback", "lease"},
	"interfaces":                           {"httplimit", "grpclimit", service("httpapi"), service("rlsapi"), service("respapi"), service("forwardauth")},
	"the library's packages over the root": {"memstore", "httplimit", "replay", "storetest", "conformance"},
	"the model and the code it judges":     {"storetest/model", "algo"},
	"the HTTP API and the stores":          {service("httpapi"), "memstore", "redisstore", "memcachedstore"},
}

// service returns the folder of a package of the service.
func service(name string) string { return "cmd/headgate/internal/" + name }

// contradictions lists entries of the table that the fixed rules forbid.
func (rules ruleSet) contradictions() (found []string) {
	for _, folder := range slices.Sorted(maps.Keys(rules.packages)) {
		rule := rules.packages[folder]
		if rule.why == "" {
			found = append(found, folder+" has a rule without a reason")
		}
		for _, name := range rule.code {
			if why := rules.forbidden(folder, name); why != "" {
				found = append(found, fmt.Sprintf("the table lets %s import %s: %s", folder, name, why))
			}
		}
	}
	return append(found, rules.thirdPartyContradictions()...)
}

func (rules ruleSet) thirdPartyContradictions() (found []string) {
	for _, module := range slices.Sorted(maps.Keys(rules.thirdParty)) {
		rule := rules.thirdParty[module]
		if rule.why == "" {
			found = append(found, module+" has a rule without a reason")
		}
		if slices.Contains(rule.code, ".") || slices.Contains(rule.code, "algo") {
			found = append(found, fmt.Sprintf("the table lets the root or algo import %s: both import no third party", module))
		}
	}
	return found
}

// forbidden returns why the code of folder may never import the package name of this
// repository.
func (rules ruleSet) forbidden(folder, name string) string {
	inService := strings.HasPrefix(folder, "cmd/")
	switch {
	case strings.HasPrefix(name, "cmd/") && !inService:
		return "only the service imports the service"
	case name == "cmd/headgate":
		return "nothing imports a command"
	case folder == "." && len(rules.packages[name].code) > 0:
		return "the root imports the standard library, and internal packages that import nothing else"
	}
	for group, members := range siblings {
		if folder != name && slices.Contains(members, folder) && slices.Contains(members, name) {
			return "siblings never import each other: " + group
		}
	}
	return ""
}
