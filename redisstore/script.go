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

//go:embed begin.lua
var beginLua string

//go:embed takes.lua
var takesLua string

//go:embed logs.lua
var logsLua string

//go:embed rest.lua
var restLua string

//go:embed write.lua
var writeLua string

//go:embed guide.lua
var guideLua string

// script is a text and the name by which a server that has loaded it knows it.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// decideScript decides for every algorithm; guideScript for the layout of the Redis guides.
var (
	decideScript = newScript(decideText())
	guideScript  = newScript(guideLua)
)

// decideText puts every algorithm's own Lua text, each behind a function so that only those in use are run, before the store's.
func decideText() string {
	var text strings.Builder
	text.WriteString(algo.Arithmetic() + "\nlocal function algorithm_of(number)\n")
	for i, a := range algo.All() {
		fmt.Fprintf(&text, "if number == %d then\n%send\n", i+1, algo.LuaLocal("x", a.Lua)+"return x\n")
	}
	// What most calls do not need stands in a branch: to make functions takes time, also of those that nobody calls.
	return text.String() + "end\n" + beginLua + takesLua + "if pos <= size then\n" + logsLua + restLua + "end\n" + writeLua
}

// numberOf is an algorithm's place in decideText.
func numberOf(name headgate.Algorithm) byte {
	for i, a := range algo.All() {
		if a.Name == name {
			return byte(i + 1)
		}
	}
	panic("redisstore: " + string(name) + " is not in the list of algorithms") // the caller has it from there
}
