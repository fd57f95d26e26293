// Package testrules checks rules that the tests of all modules must follow.
package testrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// allowedSleeps maps other functions that may call time.Sleep to the reason.
var allowedSleeps = map[string]string{
	". Spacing":                             "a slow store for tests in fake time",
	". countCall":                           "a slow store for tests in fake time",
	"cmd/headgate/internal/demo mustBeIdle": "a measurement of an idle page",
	"cmd/headgate/internal/load slowServer": "a slow server",
	"cmd/headgate/internal/respapi TestRequestTimeoutBeginsWithFirstByte": "it tests pauses within a request",
	"fallback makeNodeUnavailable":                                        "the duration of a fault under load",
	"cmd/headgate/internal/rlsapi ApplyLease":                             "latency of a store in fake time",
	"cmd/headgate/internal/rlsapi pass":                                   "latency of a message in fake time",
	"lease ApplyHolds":                                                    "a late copy of a message in fake time",
	"lease ApplyLease":                                                    "a late copy of a message in fake time",
	"redisstore/goredis Example":                                          "a program that waits until its limit allows a request",
	"replay Apply":                                                        "a slow store",
	"storetest/faults applyDuringFault":                                   "a slow store",
}

// TestTestsDoNotSleep checks that tests wait for an event or poll with a long deadline. A
// fixed sleep makes a test slow on a fast machine and wrong on a slow one. So time.Sleep
// may be called only in loops, in fake time and in the functions of allowedSleeps.
func TestTestsDoNotSleep(t *testing.T) {
	for dir, funcs := range testFuncs(t, "../..") {
		fake := inFakeTime(funcs)
		for _, f := range funcs {
			for _, position := range f.sleeps {
				if !fake[f.name] && allowedSleeps[dir+" "+f.name] == "" {
					t.Errorf("%v: %s sleeps; it must wait for an event or poll", position, f.name)
				}
			}
		}
	}
}

// testFunc is a function or method of a test file.
type testFunc struct {
	name        string
	identifiers map[string]bool  // all identifiers in its body
	sleeps      []token.Position // calls of time.Sleep outside loops
}

// testFuncs returns the functions of all test files below root, by folder.
func testFuncs(t *testing.T, root string) map[string][]testFunc {
	funcs := map[string][]testFunc{}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				funcs[filepath.ToSlash(dir)] = append(funcs[filepath.ToSlash(dir)], inspect(files, f))
			}
		}
		return err
	})
	if err != nil || len(funcs) == 0 {
		t.Fatalf("got %d folders with tests, error %v, want at least one folder and no error", len(funcs), err)
	}
	return funcs
}

func inspect(files *token.FileSet, decl *ast.FuncDecl) testFunc {
	f := testFunc{name: decl.Name.Name, identifiers: map[string]bool{}}
	loops := map[ast.Node]bool{} // nodes within a loop
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			ast.Inspect(n, func(within ast.Node) bool { loops[within] = true; return true })
		case *ast.Ident:
			f.identifiers[n.Name] = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && n.Sel.Name == "Sleep" && !loops[n] {
				f.sleeps = append(f.sleeps, files.Position(n.Pos()))
			}
		}
		return true
	})
	return f
}

// inFakeTime returns the functions of a package that run in a bubble of testing/synctest:
// functions that start one, their callers, and helpers that only functions in a bubble
// call.
func inFakeTime(funcs []testFunc) map[string]bool {
	fake := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for _, f := range funcs {
			if !fake[f.name] && (f.startsBubble(fake) || onlyCalledFrom(fake, f.name, funcs)) {
				fake[f.name], changed = true, true
			}
		}
	}
	return fake
}

// startsBubble reports whether f starts a bubble or calls a function in fake time.
func (f *testFunc) startsBubble(fake map[string]bool) bool {
	for name := range f.identifiers {
		if name == "synctest" || fake[name] {
			return true
		}
	}
	return false
}

// onlyCalledFrom reports whether name has callers and all of them are in fake time.
func onlyCalledFrom(fake map[string]bool, name string, funcs []testFunc) bool {
	called := false
	for _, f := range funcs {
		if f.identifiers[name] {
			if called = true; !fake[f.name] {
				return false
			}
		}
	}
	return called
}
