package algo_test

import (
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/headgate/headgate/algo"
)

// TestLuaUsesOnlyMath checks that a script uses no clock, no server and no
// global of another script.
func TestLuaUsesOnlyMath(t *testing.T) {
	for _, a := range algo.All() {
		t.Run(string(a.Name), func(t *testing.T) {
			chunk, err := parse.Parse(strings.NewReader(algo.Arithmetic()+a.Lua), string(a.Name))
			if err != nil {
				t.Fatal(err)
			}
			proto, err := lua.Compile(chunk, string(a.Name))
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(globals(proto), func(name string) bool { return name == "error" })
			if want := []string{"math"}; !slices.Equal(got, want) {
				t.Errorf("globals used: got %v want %v", got, want)
			}
			if strings.Contains(withoutComments(a.Lua), "math") {
				t.Error("the text has math in it, want only what arithmetic.lua takes from there: floor, min and max")
			}
		})
	}
}

// globals returns the names of all globals that are read or written, each once.
func globals(p *lua.FunctionProto) (names []string) {
	for _, inst := range p.Code {
		if op := int(inst >> 26); op == lua.OP_GETGLOBAL || op == lua.OP_SETGLOBAL {
			names = append(names, p.Constants[inst&0x3ffff].String())
		}
	}
	for _, inner := range p.FunctionPrototypes {
		names = append(names, globals(inner)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func withoutComments(text string) string {
	var code strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		code.WriteString(line + "\n")
	}
	return code.String()
}

// TestLuaTextsCombineInOneScript checks that a store can combine any of the texts, with
// their names, in one script.
func TestLuaTextsCombineInOneScript(t *testing.T) {
	script, names := algo.Arithmetic(), []string{}
	for _, a := range algo.All() {
		script += algo.LuaLocal(string(a.Name), a.Lua)
		names = append(names, string(a.Name))
	}
	vm := lua.NewState()
	defer vm.Close()
	if err := vm.DoString(script + "return " + strings.Join(names, ", ")); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		for _, function := range []string{"new", "take", "answer", "refund", "undo", "reset_at"} {
			if got := vm.GetField(vm.Get(i+1), function); got.Type() != lua.LTFunction {
				t.Errorf("%s.%s is %v, want a function", name, function, got)
			}
		}
	}
}

// TestLuaNumbersStayBelow2To53 runs the texts with every arithmetic operation replaced
// by a checked one: operands must be whole, and results must equal those of unlimited
// whole numbers. Only the product that is compared with EXACT may be too large.
func TestLuaNumbersStayBelow2To53(t *testing.T) {
	for i, a := range algo.Rates() {
		t.Run(string(a.Name), func(t *testing.T) {
			t.Parallel()
			checked, err := newLuaStepper(a, func(vm *lua.LState) (*lua.LFunction, error) {
				return loadChecked(vm, stepperText(a))
			})
			if err != nil {
				t.Fatal(err)
			}
			steps := 25_000
			if raceDetector || testing.Short() {
				steps = 4_000
			}
			if _, difference := compare(a, checked, newGenerator(*seedFlag, uint64(100+i)), steps); difference != "" {
				t.Errorf("seed %d: %s", *seedFlag, difference)
			}
		})
	}
}

// loadChecked compiles text with the operators + − * / % turned into calls of the
// checks below.
func loadChecked(vm *lua.LState, text string) (*lua.LFunction, error) {
	chunk, err := parse.Parse(strings.NewReader(text), "checked")
	if err != nil {
		return nil, err
	}
	r := rewriter{vm: vm, compared: map[ast.Expr]bool{}, floored: map[ast.Expr]bool{}}
	for name, check := range map[string]lua.LGFunction{
		"checked_add": checked((*big.Int).Add), "checked_sub": checked((*big.Int).Sub), "checked_mul": checked((*big.Int).Mul),
		"checked_mod": checked((*big.Int).Mod), "checked_floor_div": checked((*big.Int).Div),
	} {
		vm.SetGlobal(name, vm.NewFunction(check))
	}
	r.walk(reflect.ValueOf(chunk))
	proto, err := lua.Compile(chunk, "checked")
	if err != nil {
		return nil, err
	}
	return vm.NewFunctionFromProto(proto), nil
}

// checked returns an operation on whole numbers. It raises a Lua error if a double cannot
// represent the result exactly.
func checked(do func(z, x, y *big.Int) *big.Int) lua.LGFunction {
	return func(vm *lua.LState) int {
		a, b := float64(vm.CheckNumber(1)), float64(vm.CheckNumber(2))
		x, accX := big.NewFloat(a).Int(nil)
		y, accY := big.NewFloat(b).Int(nil)
		if accX != big.Exact || accY != big.Exact {
			vm.RaiseError("operands %v and %v are not whole", a, b)
		}
		z := do(new(big.Int), x, y)
		if z.CmpAbs(big.NewInt(maxExact+1)) > 0 {
			vm.RaiseError("%v and %v give %v, past 2^53", x, y, z)
		}
		vm.Push(lua.LNumber(z.Int64()))
		return 1
	}
}

// rewriter replaces the operators of a syntax tree.
type rewriter struct {
	vm       *lua.LState
	compared map[ast.Expr]bool // products that are only compared with EXACT
	floored  map[ast.Expr]bool // quotients that are rounded down immediately
}

var exprType = reflect.TypeFor[ast.Expr]()

func (r *rewriter) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		r.note(v.Interface())
		r.walk(v.Elem())
		if v.Type() == exprType {
			v.Set(reflect.ValueOf(r.replaced(v.Interface().(ast.Expr))))
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.walk(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				r.walk(v.Field(i))
			}
		}
	}
}

// note inspects an expression before its parts are replaced.
func (r *rewriter) note(node any) {
	switch e := node.(type) {
	case *ast.RelationalOpExpr:
		if name, ok := e.Rhs.(*ast.IdentExpr); ok && e.Operator == "<" && name.Value == "EXACT" {
			r.compared[e.Lhs] = true
		}
	case *ast.FuncCallExpr:
		if name, ok := e.Func.(*ast.IdentExpr); ok && name.Value == "floor" && len(e.Args) == 1 {
			r.floored[e.Args[0]] = true
		}
	}
}

func (r *rewriter) replaced(e ast.Expr) ast.Expr {
	op, ok := e.(*ast.ArithmeticOpExpr)
	if !ok || r.compared[e] {
		return e
	}
	name := map[string]string{"+": "checked_add", "-": "checked_sub", "*": "checked_mul", "%": "checked_mod", "/": "unrounded_div"}[op.Operator]
	if op.Operator == "/" && r.floored[e] {
		name = "checked_floor_div"
	}
	call := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: name}, Args: []ast.Expr{op.Lhs, op.Rhs}}
	call.SetLine(op.Line())
	call.SetLastLine(op.LastLine())
	call.Func.SetLine(op.Line())
	call.Func.SetLastLine(op.LastLine())
	return call
}

// TestLuaArithmeticEqualsBigIntegers compares mul_div, mul_div_ceil and ceil_div
// with math/big at the bounds of their arguments.
func TestLuaArithmeticEqualsBigIntegers(t *testing.T) {
	vm := lua.NewState()
	defer vm.Close()
	if err := vm.DoString(algo.Arithmetic() + "return mul_div, mul_div_ceil, ceil_div"); err != nil {
		t.Fatal(err)
	}
	mulDiv, mulDivCeil, ceilDiv := vm.Get(1), vm.Get(2), vm.Get(3)
	call := func(f lua.LValue, results int, arguments ...int64) []float64 {
		vm.Push(f)
		for _, n := range arguments {
			vm.Push(lua.LNumber(n))
		}
		vm.Call(len(arguments), results)
		got := make([]float64, results)
		for i := range got {
			got[i] = float64(vm.Get(i - results).(lua.LNumber))
		}
		vm.Pop(results)
		return got
	}
	d := newGenerator(*seedFlag, 200)
	done := 0
	for done < 10*stepsPerTest && !(testing.Short() && done >= stepsPerTest) {
		a, b, m := d.edge(35), d.edge(53), max(1, d.edge(45))
		if d.oneIn(20) {
			m = 1 << 45
		}
		product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		q, r := product.DivMod(product, big.NewInt(m), new(big.Int))
		if q.Cmp(big.NewInt(maxExact)) >= 0 {
			continue
		}
		done++
		up := q.Int64()
		if r.Sign() > 0 {
			up++
		}
		if got, want := call(mulDiv, 2, a, b, m), []float64{float64(q.Int64()), float64(r.Int64())}; !slices.Equal(got, want) {
			t.Fatalf("mul_div(%d, %d, %d): got %.0f want %.0f", a, b, m, got, want)
		}
		if got := call(mulDivCeil, 1, a, b, m)[0]; got != float64(up) {
			t.Fatalf("mul_div_ceil(%d, %d, %d): got %.0f want %d", a, b, m, got, up)
		}
		if got, want := call(ceilDiv, 1, b, m)[0], (b-1+m)/m; b > 0 && got != float64(want) {
			t.Fatalf("ceil_div(%d, %d): got %.0f want %d", b, m, got, want)
		}
	}
}

// edge returns a whole number below 2^bits: small, large, near a power of two or
// anything.
func (d generator) edge(bits int) int64 {
	most := int64(1)<<bits - 1
	switch d.IntN(6) {
	case 0:
		return d.upTo(3)
	case 1:
		return most - d.upTo(min(most, 3))
	case 2:
		return min(most, max(0, int64(1)<<d.IntN(bits)+d.upTo(2)-1))
	case 3:
		return min(most, int64(math.Exp2(float64(bits)*d.Float64())))
	default:
		return d.upTo(most)
	}
}
