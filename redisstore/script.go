package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

//go:embed prelude.lua
var preludeLua string

//go:embed fastpath.lua
var fastpathLua string

//go:embed log.lua
var logLua string

//go:embed logchunks.lua
var logChunksLua string

//go:embed slowpath.lua
var slowpathLua string

//go:embed holdvalue.lua
var holdValueLua string

//go:embed holds.lua
var holdsLua string

//go:embed commit.lua
var commitLua string

//go:embed guide.lua
var guideLua string

//go:embed document.lua
var documentLua string

// script is the text of a script and its SHA-1. A server that has cached the script
// executes it by its SHA-1.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// decideScript makes the decisions of every algorithm. guideScript makes the decisions
// in the layout of the Redis guides.
var (
	decideScript = newScript(decideText())
	guideScript  = newScript(guideLua)
)

// decideText returns the text of decideScript: the Lua code of all algorithms, then the
// Lua code of this store.
func decideText() string { return algorithmsText() + storeText() }

// algorithmsText returns the Lua code of all algorithms. The code of each algorithm is in
// a branch of its own, so that only the code of the algorithms that a call uses is
// executed.
func algorithmsText() string {
	var text strings.Builder
	text.WriteString(algo.Arithmetic() + "\nlocal function algorithm_of(number)\n")
	for i, a := range algo.All() {
		fmt.Fprintf(&text, "if number == %d then\n%send\n", i+1, algo.LuaLocal("x", a.Lua)+"return x\n")
	}
	return text.String() + "end\n"
}

// storeText returns the Lua code of this store. Code that most calls do not need is in a
// branch or a function, because creating a function takes time even if the function is
// never called.
func storeText() string {
	ledgers := luaFunction("make_ledgers", algo.LuaLocal("ledger", algo.LedgerLua())+holdsLua)
	holds := luaFunction("make_holds", strings.Replace(holdValueLua, "--LEDGERS\n", ledgers, 1))
	logs := "local log_store = log_count > 0 and (function()\n" + logLua + logChunksLua + "return log_store\nend)()\n"
	slow := strings.Replace(slowpathLua, "--HOLDS\n", holds, 1)
	return preludeLua + fastpathLua + "if pos <= size then\n" + logs + slow + "end\n" + commitLua
}

// luaFunction returns a Lua function with the given body.
func luaFunction(name, body string) string { return "local function " + name + "()\n" + body + "end\n" }

// algorithmNumber returns the number that decideText gives an algorithm.
func algorithmNumber(name headgate.Algorithm) byte {
	for i, a := range algo.All() {
		if a.Name == name {
			return byte(i + 1)
		}
	}
	panic("redisstore: " + string(name) + " is not in the list of algorithms") // callers take the name from that list
}
