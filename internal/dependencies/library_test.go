package dependencies_test

// libraryRules are the packages of the modules that programs import.
var libraryRules = map[string]packageRule{
	".": {
		why:   "programs import the root first, so it adds nothing to their build",
		tests: []string{"memstore", "internal/leaktest"},
	},
	"algo": {
		why:   "algorithms are arithmetic over limits and decisions: no store, no interface, no clock",
		code:  []string{"."},
		tests: []string{"storetest/model"},
	},
	"conformance": {
		why:   "test vectors for any limiter in any language, and a reader for them; its tests run them against every implementation here",
		tests: []string{".", "algo", "memstore", "storetest/model"},
	},
	"memstore": {
		why:   "a store applies an algorithm's step and knows no other store",
		code:  []string{".", "algo"},
		tests: []string{"storetest"},
	},
	"memcachedstore": {
		why:   "a store applies an algorithm's step and knows no other store",
		code:  []string{".", "algo", "internal/diagnosis"},
		tests: []string{"storetest", "storetest/crowd", "storetest/faults", "storetest/history", "internal/testserver", "internal/leaktest"},
	},
	"redisstore": {
		why:  "a store applies an algorithm's step and knows no other store",
		code: []string{".", "algo", "internal/diagnosis"},
		tests: []string{
			"storetest", "storetest/crowd", "storetest/faults", "storetest/history", "fallback", "memstore", "internal/testserver",
			"internal/leaktest",
		},
	},
	"redisstore/goredis": {
		why:   "an adapter for programs that already hold a go-redis client",
		code:  []string{"redisstore"},
		tests: []string{".", "storetest", "internal/testserver"},
	},
	"fallback": {
		why:   "it wraps any store, so it imports none",
		code:  []string{"."},
		tests: []string{"memstore", "redisstore", "storetest", "internal/testserver", "internal/leaktest"},
	},
	"storetest": {
		why:   "the suite that every store must pass imports none of them; its tests build a reference store from algo",
		code:  []string{".", "storetest/model"},
		tests: []string{"algo"},
	},
	"storetest/model": {
		why:  "a second, independent implementation of the decisions: importing algo would repeat algo's mistakes",
		code: []string{"."},
	},
	"storetest/history": {
		why:   "a checker for linearizable histories; the model computes the answer of each operation",
		code:  []string{".", "storetest/model"},
		tests: []string{"memstore"},
	},
	"storetest/faults": {
		why:   "it injects faults through hooks that it is given, and checks the recorded histories",
		code:  []string{".", "storetest/history"},
		tests: []string{"memstore"},
	},
	"storetest/crowd": {
		why:   "it counts what many processes were admitted and needs only the bounds of the algorithms",
		code:  []string{"."},
		tests: []string{"memstore"},
	},
	"clientaddr": {
		why: "it finds the client's address from the peer and header fields; limits are none of its business",
	},
	"httpfields": {
		why:   "it writes header fields from limits and decisions and knows neither requests nor stores",
		code:  []string{"."},
		tests: []string{"memstore"},
	},
	"httplimit": {
		why:   "net/http middleware over any store",
		code:  []string{".", "clientaddr", "httpfields", "internal/key", "internal/problem"},
		tests: []string{"memstore", "fallback", "redisstore", "internal/testserver", "internal/leaktest"},
	},
	"grpclimit": {
		why:   "gRPC interceptors over any store; client addresses and fields are those of HTTP",
		code:  []string{".", "clientaddr", "httpfields", "internal/key"},
		tests: []string{"memstore", "fallback", "redisstore", "internal/testserver", "internal/leaktest"},
	},
	"loginguard": {
		why:   "protection of login forms, built from limits over any store",
		code:  []string{".", "clientaddr", "httplimit"},
		tests: []string{"memstore", "redisstore", "memcachedstore", "fallback", "internal/testserver"},
	},
	"replay": {
		why:   "it replays logs against stores that it is given, under the keys of the service",
		code:  []string{".", "internal/key"},
		tests: []string{"algo", "memstore", "replay/internal/biglog", "internal/leaktest"},
	},
	"replay/internal/biglog": {why: "it writes long logs for tests"},
	"internal/dependencies":  {why: "it reads source files"},
	"internal/key":           {why: "it makes the keys of requests, of which the client's address is a part", code: []string{"clientaddr"}},
	"internal/diagnosis":     {why: "what a check of a store found, for every store"},
	"internal/modules":       {why: "it runs the go command"},
	"internal/leaktest":      {why: "it finds goroutines that a test left behind"},
	"internal/problem":       {why: "it writes problem details (RFC 9457) for the middleware and the service"},
	"internal/testserver":    {why: "real servers and failing networks for tests; it speaks their protocols itself"},
}

// libraryThirdParty are the third-party modules of the library's modules.
var libraryThirdParty = map[string]thirdPartyRule{
	"github.com/anishathalye/porcupine": {why: "the linearizability checker", code: []string{"storetest/history"}},
	"github.com/bradfitz/gomemcache":    {why: "the memcached client", code: []string{"memcachedstore"}},
	"github.com/dunglas/httpsfv": {
		why:   "an independent parser of structured fields, for tests",
		tests: []string{"httpfields", "httplimit", "grpclimit", service("forwardauth"), service("httpapi")},
	},
	"github.com/redis/go-redis/v9": {
		why:   "the client that goredis adapts; a stock client of the Redis-compatible endpoint in tests",
		code:  []string{"redisstore/goredis"},
		tests: []string{service("respapi"), service("service")},
	},
	"github.com/redis/rueidis": {
		why:   "the Redis client; a stock client of the Redis-compatible endpoint in tests",
		code:  []string{"redisstore"},
		tests: []string{service("respapi")},
	},
	"github.com/sony/gobreaker/v2": {why: "the circuit breaker", code: []string{"fallback"}},
	"github.com/yuin/gopher-lua":   {why: "a Lua VM that runs the Lua twins in tests", tests: []string{"algo", "conformance"}},
	"go.uber.org/goleak":           {why: "the goroutine leak detector", code: []string{"internal/leaktest"}},
}
