// Package testrules checks rules that the tests of all modules follow.
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

// sleeps lists the other functions that may call time.Sleep, with the reason.
var sleeps = map[string]string{
	". Spacing":                         "a store that is slow, for tests in fake time",
	". watch":                           "a store that is slow, for tests in fake time",
	"internal/turn Done":                "a context that ends late, for tests in fake time",
	"cmd/headgate/internal/load slowly": "a server that is slow",
	"cmd/headgate/internal/respapi TestRequestTimeoutBeginsWithFirstByte": "it tests the time between the parts of a request",
	"redisstore/goredis Example":                                          "a program that waits for its limit",
	"replay Apply":                                                        "a store that is slow",
	"storetest/faults applyDuringFault":                                   "a store that is slow",
}

// TestTestsDoNotSleep: a test waits for an event, or polls with a generous deadline. A nap makes it slow on a fast machine and
// wrong on a slow one. So time.Sleep is called only in loops, in fake time, and in the functions of sleeps.
func TestTestsDoNotSleep(t *testing.T) {
	for dir, funcs := range testFuncs(t, "../..") {
		fake := inFakeTime(funcs)
		for _, f := range funcs {
			for _, nap := range f.naps {
				if !fake[f.name] && sleeps[dir+" "+f.name] == "" {
					t.Errorf("%v: %s sleeps; want it to wait for an event, or to poll", nap, f.name)
				}
			}
		}
	}
}

// testFunc is a function or method of a test file.
type testFunc struct {
	name  string
	calls map[string]bool  // names of what it mentions
	naps  []token.Position // calls of time.Sleep outside loops
}

// testFuncs parses all test files below root, by folder.
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
				funcs[filepath.ToSlash(dir)] = append(funcs[filepath.ToSlash(dir)], read(files, f))
			}
		}
		return err
	})
	if err != nil || len(funcs) == 0 {
		t.Fatalf("got %d folders with tests, error %v want all of them", len(funcs), err)
	}
	return funcs
}

func read(files *token.FileSet, decl *ast.FuncDecl) testFunc {
	f := testFunc{name: decl.Name.Name, calls: map[string]bool{}}
	loops := map[ast.Node]bool{} // those within a loop
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			ast.Inspect(n, func(within ast.Node) bool { loops[within] = true; return true })
		case *ast.Ident:
			f.calls[n.Name] = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && n.Sel.Name == "Sleep" && !loops[n] {
				f.naps = append(f.naps, files.Position(n.Pos()))
			}
		}
		return true
	})
	return f
}

// inFakeTime returns the functions of a package that run in a bubble of testing/synctest: those that begin one, that call one
// which does, and helpers that only those call.
func inFakeTime(funcs []testFunc) map[string]bool {
	fake := map[string]bool{}
	for changed := true; changed; {
		changed = false
		for _, f := range funcs {
			if !fake[f.name] && (f.begins(fake) || onlyCalledFrom(fake, f.name, funcs)) {
				fake[f.name], changed = true, true
			}
		}
	}
	return fake
}

// begins reports whether a function begins a bubble, or calls one that is in fake time.
func (f *testFunc) begins(fake map[string]bool) bool {
	for name := range f.calls {
		if name == "synctest" || fake[name] {
			return true
		}
	}
	return false
}

// onlyCalledFrom reports whether name has callers, all of which are in fake time.
func onlyCalledFrom(fake map[string]bool, name string, funcs []testFunc) bool {
	called := false
	for _, f := range funcs {
		if f.calls[name] {
			if called = true; !fake[f.name] {
				return false
			}
		}
	}
	return called
}
