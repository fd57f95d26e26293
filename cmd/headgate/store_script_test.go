package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/headgate/headgate/internal/testserver"
)

// TestStoreScripts runs the scripts of testdata/store, each with its own Redis and
// memcached: $REDIS and $MEMCACHED are their addresses, $PORT is the port of Redis.
func TestStoreScripts(t *testing.T) {
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"redis": redisCommand, "memcached": memcachedCommand, "makelog": makeLog, "until": until,
	}
	for name, command := range servingCommands {
		commands[name] = command
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/store",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			redis, memcached := testserver.Redis(t), testserver.Memcached(t)
			env.Values[redisKey{}], env.Values[memcachedKey{}] = redis, memcached
			env.Setenv("REDIS", redis.Addr())
			env.Setenv("PORT", redis.Port())
			env.Setenv("MEMCACHED", memcached.Addr())
			return setUpServing(env)
		},
		Cmds: commands,
	})
}

type (
	redisKey     struct{}
	memcachedKey struct{}
)

// redis kill|start ends the server or starts it again; redis COMMAND… prints the reply.
func redisCommand(ts *testscript.TestScript, _ bool, args []string) {
	server := ts.Value(redisKey{}).(*testserver.RedisServer)
	switch args[0] {
	case "kill":
		server.Kill()
	case "start":
		server.Start()
	default:
		reply, err := server.Try(args...)
		ts.Check(err)
		fmt.Fprintln(ts.Stdout(), reply)
	}
}

// memcached COMMAND… prints the lines of the reply.
func memcachedCommand(ts *testscript.TestScript, _ bool, args []string) {
	lines, err := ts.Value(memcachedKey{}).(*testserver.MemcachedServer).Try(strings.Join(args, " "))
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), strings.Join(lines, "\n"))
}

// makelog FILE LINES KEYS writes a log of JSON lines: few keys are met often, many
// instants are equal, some lines are late, some costs are 0 and some above every limit.
func makeLog(ts *testscript.TestScript, _ bool, args []string) {
	lines, err := strconv.Atoi(args[1])
	ts.Check(err)
	keys, err := strconv.ParseUint(args[2], 10, 64)
	ts.Check(err)
	random := rand.New(rand.NewPCG(1, 2))
	often := rand.NewZipf(random, 1.2, 1, keys-1)
	var log strings.Builder
	at := int64(1747821903000000)
	for range lines {
		at += [...]int64{0, 0, 1, 17, 1000, 40_000}[random.IntN(6)]
		late := [...]int64{0, 0, 0, 50_000}[random.IntN(4)]
		cost := [...]int64{0, 1, 1, 1, 1, 2, 3, 5, 9, 2000}[random.IntN(10)]
		fmt.Fprintf(&log, `{"ts_us":%d,"key":"user %d {}","cost":%d}`+"\n", at-late, often.Uint64(), cost)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(log.String()), 0o600))
}

// until readyz TEXT waits until /readyz contains a text; until logged TEXT, until the log
// contains it, and requests /readyz meanwhile; until keys, until Redis contains keys.
func until(ts *testscript.TestScript, _ bool, args []string) {
	said, met := "", false
	for deadline := time.Now().Add(20 * time.Second); !met && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		switch args[0] {
		case "readyz":
			said = readyz(ts)
			met = strings.Contains(said, args[1])
		case "logged":
			said = readyz(ts)
			met = servingOf(ts).log.has(args[1])
		case "keys":
			reply, err := ts.Value(redisKey{}).(*testserver.RedisServer).Try("DBSIZE")
			ts.Check(err)
			met = reply.Int() > 0
		}
	}
	if !met {
		ts.Fatalf("waited in vain for %s; /readyz said %q at last", args, said)
	}
}

func readyz(ts *testscript.TestScript) string {
	resp, err := http.Get("http://" + ts.Getenv("ADDR") + "/readyz")
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	return resp.Status + " " + string(body)
}
