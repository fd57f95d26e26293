package logs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// table is the document of the log messages.
const table = "../../../../docs/reference/log-messages.md"

// folders contain the code that logs: the service, and package fallback, which logs the
// events of its store.
var folders = []string{"../..", "../../../../fallback"}

// TestEveryLogMessageIsDocumented compares the messages in the code of the service with
// the table in docs/reference/log-messages.md: an operator finds each message there,
// with its level, when it is logged and what to do.
func TestEveryLogMessageIsDocumented(t *testing.T) {
	inCode, documented := messagesInCode(t), documentedMessages(t)
	if len(inCode) < 20 {
		t.Fatalf("found only %d log messages in the code", len(inCode))
	}
	for _, m := range slices.Sorted(maps.Keys(inCode)) {
		if !documented[m] {
			t.Errorf("%s: %s is not in %s", inCode[m], m, table)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(documented)) {
		if inCode[m] == "" {
			t.Errorf("%s is in %s, and no code logs it", m, table)
		}
	}
}

// TestLogMessagesAreConstantPhrases: a message begins with a lower-case word and has no
// punctuation that belongs to attributes.
func TestLogMessagesAreConstantPhrases(t *testing.T) {
	phrase := regexp.MustCompile("^[A-Z]+ (\"[a-z]|\"(Envoy|Redis|HTTP|OTLP|TLS|systemd|xDS))[^\"=%:]*\"$")
	for m, place := range messagesInCode(t) {
		if !phrase.MatchString(m) {
			t.Errorf("%s: %s is not a phrase", place, m)
		}
	}
}

// documentedMessages returns the rows of the table: level and quoted message.
func documentedMessages(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z]+) \\| [^|]{10,} \\| [^|]{5,} \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[strings.ToUpper(m[2])+" "+strconv.Quote(m[1])] = true
	}
	return rows
}

// messagesInCode returns the place of each message that the service logs, by its level
// and text.
func messagesInCode(t *testing.T) map[string]string {
	t.Helper()
	places := map[string]string{}
	for _, folder := range folders {
		addMessages(t, folder, places)
	}
	return places
}

// addMessages adds the messages in the code of a folder to places.
func addMessages(t *testing.T, folder string, places map[string]string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			inFunction(t, set, decl, places)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// inFunction adds the messages of one declaration to places.
func inFunction(t *testing.T, set *token.FileSet, decl ast.Decl, places map[string]string) {
	literals := assigned(decl)
	ast.Inspect(decl, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		level, ok := levelOf(call)
		if !ok {
			return true
		}
		place := set.Position(call.Pos()).String()
		texts := textsOf(call.Args[0], literals)
		if len(texts) == 0 {
			t.Errorf("%s: the message is not a constant", place)
		}
		for _, text := range texts {
			places[level+" "+strconv.Quote(text)] = place
		}
		return true
	})
}

// assigned returns the string literals that are assigned to each variable in a
// declaration.
func assigned(decl ast.Decl) map[string][]string {
	literals := map[string][]string{}
	ast.Inspect(decl, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i := range a.Lhs {
				if name, ok := a.Lhs[i].(*ast.Ident); ok {
					literals[name.Name] = append(literals[name.Name], textsOf(a.Rhs[i], nil)...)
				}
			}
		}
		return true
	})
	return literals
}

// textsOf returns the strings that an expression can be: a literal, literals that are
// added, or a variable that literals are assigned to.
func textsOf(e ast.Expr, literals map[string][]string) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return []string{text}
		}
	case *ast.BinaryExpr:
		x, y := textsOf(e.X, literals), textsOf(e.Y, literals)
		if len(x) == 1 && len(y) == 1 && e.Op == token.ADD {
			return []string{x[0] + y[0]}
		}
	case *ast.Ident:
		return literals[e.Name]
	}
	return nil
}

// levelOf returns the level of a call of a logger.
func levelOf(call *ast.CallExpr) (string, bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, f.Sel.Name) {
		return "", false
	}
	name := ""
	switch x := f.X.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	isLogger := slices.Contains([]string{"log", "Log", "slog", "logger", "to"}, name)
	return strings.ToUpper(f.Sel.Name), isLogger
}
