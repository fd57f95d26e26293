package dependencies_test

// libraryRules are the packages of the modules that programs import.
var libraryRules = map[string]packageRule{
	".": {
		why:   "programs import the root first, so it adds nothing to their build",
		code:  []string{"internal/calendar", "internal/heartbeat", "internal/hooks", "internal/memo", "internal/turn"},
		tests: []string{"internal/admission/admissiontest", "internal/leaktest", "internal/root", "memstore"},
	},
	"algo": {
		why:   "algorithms are arithmetic over limits and decisions: no store, no interface, no clock",
		code:  []string{".", "internal/calendar", "internal/micros"},
		tests: []string{"storetest/model"},
	},
	"clientaddr": {
		why: "it finds the client's address from the peer and header fields; limits are none of its business",
	},
	"conformance": {
		why:   "test vectors for any limiter in any language, and a reader for them; its tests run them against every implementation here",
		tests: []string{".", "algo", "memstore", "storetest/model"},
	},
	"fallback": {
		why:   "it wraps any store, so it imports none",
		code:  []string{".", "internal/micros", "internal/root"},
		tests: []string{"algo", "internal/leaktest", "internal/testserver", "memcachedstore", "memstore", "redisstore", "storetest"},
	},
	"grpclimit": {
		why:  "gRPC interceptors over any store; client addresses and fields are those of HTTP",
		code: []string{".", "clientaddr", "httpfields", "internal/admission", "internal/key", "internal/root", "internal/turn"},
		tests: []string{
			"fallback", "internal/admission/admissiontest", "internal/leaktest", "internal/mutation", "internal/testserver",
			"lease", "memstore", "redisstore",
		},
	},
	"httpfields": {
		why:   "it writes header fields from limits and decisions and knows neither requests nor stores",
		code:  []string{".", "internal/calendar", "internal/micros", "internal/root"},
		tests: []string{"algo", "memstore"},
	},
	"httplimit": {
		why: "net/http middleware over any store",
		code: []string{
			".", "clientaddr", "httpfields", "internal/admission", "internal/key", "internal/problem",
			"internal/recorder", "internal/urlpath",
		},
		tests: []string{
			"fallback", "internal/admission/admissiontest", "internal/leaktest", "internal/mutation", "internal/testserver",
			"lease", "memstore", "redisstore",
		},
	},
	"internal/docs":      {why: "it reads the Markdown pages and the files that they quote"},
	"internal/hooks":     {why: "functions of the root that are not API: the root imports it, so it imports nothing"},
	"internal/calendar":  {why: "arithmetic over instants and a zone of the standard library"},
	"internal/heartbeat": {why: "a timer for a set of entries"},
	"internal/memo":      {why: "a bounded map"},
	"internal/micros":    {why: "arithmetic of instants and durations"},
	"internal/respcheck": {why: "it checks bytes of a connection, for any Redis client"},
	"internal/root":      {why: "it calls the functions that the root sets in internal/hooks", code: []string{".", "internal/hooks"}},
	"internal/admission": {
		why:   "the core of every middleware: it binds, takes, holds and observes over any store",
		code:  []string{".", "httpfields", "internal/heartbeat", "internal/key", "internal/memo", "internal/root", "internal/turn"},
		tests: []string{"memstore"},
	},
	"internal/admission/admissiontest": {
		why:  "the table of scenarios that every caller of the core must pass",
		code: []string{".", "fallback", "memstore"},
	},
	"internal/dependencies": {
		why: "it reads source files",
	},
	"internal/diagnosis": {
		why:  "what a check of a store found, for every store",
		code: []string{"."},
	},
	"internal/key": {
		why:  "the text of keys and how they are composed, for every interface",
		code: []string{"clientaddr"},
	},
	"internal/language": {why: "it reads the text of all files"},
	"internal/leasemodel": {
		why: "it runs spin",
	},
	"internal/leaktest": {
		why: "it finds goroutines that a test left behind",
	},
	"internal/modules": {
		why: "it runs the go command",
	},
	"internal/mutation": {
		why: "it sends mutated requests to an interface, for tests",
	},
	"internal/problem": {
		why: "it writes problem details (RFC 9457) for the middleware and the service",
	},
	"internal/recorder": {
		why: "a response writer that remembers status and bytes",
	},
	"internal/statefile": {
		why: "files, frames and checksums of a folder; what the frames contain is the business of the store",
	},
	"internal/testrules": {
		why: "it reads test files",
	},
	"internal/testserver": {
		why: "real servers and failing networks for tests; it speaks their protocols itself",
	},
	"internal/theme": {why: "colours and the icon of every page: the demo and the report of a replay"},
	"internal/turn": {
		why: "waiting for a turn, and what becomes of units that were taken for a request that leaves: the root uses it, so it imports only the standard library",
	},
	"internal/urlpath": {why: "the spellings of a URL path, for the middleware and for routes"},
	"lease": {
		why:  "it wraps any store that has leases, so it imports none",
		code: []string{".", "internal/micros"},
		tests: []string{
			"fallback", "internal/leaktest", "internal/testserver", "memcachedstore", "memstore", "redisstore",
			"storetest/crowd", "storetest/model",
		},
	},
	"llmusage": {
		why:   "it reads answers of language models and commits holds; limits are those of the caller",
		code:  []string{".", "internal/turn"},
		tests: []string{"internal/leaktest", "memstore"},
	},
	"loginguard": {
		why: "protection of login forms, built from limits over any store",
		code: []string{
			".", "clientaddr", "httplimit", "internal/admission", "internal/problem",
			"internal/recorder", "internal/root", "internal/turn",
		},
		tests: []string{
			"fallback", "internal/admission/admissiontest", "internal/testserver", "memcachedstore",
			"memstore", "redisstore",
		},
	},
	"memcachedstore": {
		why:  "a store applies an algorithm's step and knows no other store",
		code: []string{".", "algo", "internal/diagnosis", "internal/micros"},
		tests: []string{
			"internal/leaktest", "internal/testserver", "storetest", "storetest/crowd", "storetest/faults",
			"storetest/history",
		},
	},
	"memstore": {
		why:   "a store applies an algorithm's step and knows no other store",
		code:  []string{".", "algo", "internal/micros", "internal/statefile"},
		tests: []string{"internal/leaktest", "storetest", "storetest/crowd", "storetest/model"},
	},
	"otelheadgate": {
		why:   "an observer for programs with OpenTelemetry",
		code:  []string{"."},
		tests: []string{"httplimit", "memstore"},
	},
	"redisstore": {
		why:  "a store applies an algorithm's step and knows no other store",
		code: []string{".", "algo", "internal/diagnosis", "internal/micros", "internal/respcheck"},
		tests: []string{
			"fallback", "internal/leaktest", "internal/testserver", "memstore", "storetest",
			"storetest/crowd", "storetest/faults", "storetest/history", "storetest/model",
		},
	},
	"redisstore/goredis": {
		why:   "an adapter for programs that already hold a go-redis client",
		code:  []string{"internal/respcheck", "redisstore"},
		tests: []string{".", "internal/testserver", "storetest"},
	},
	"replay": {
		why:   "it replays logs against stores that it is given, under the keys and hold ids of the service",
		code:  []string{".", "internal/key", "internal/root", "internal/theme"},
		tests: []string{"algo", "internal/leaktest", "memstore", "storetest/model"},
	},
	"storetest": {
		why:   "the suite that every store must pass imports none of them; its tests build a reference store from algo",
		code:  []string{".", "internal/micros", "storetest/model"},
		tests: []string{"algo"},
	},
	"storetest/crowd": {
		why:   "it counts what many processes were admitted and needs only the bounds of the algorithms",
		code:  []string{".", "storetest/model"},
		tests: []string{"memstore"},
	},
	"storetest/faults": {
		why:   "it injects faults through hooks that it is given, and checks the recorded histories",
		code:  []string{".", "storetest/history", "storetest/model"},
		tests: []string{"memstore"},
	},
	"storetest/history": {
		why:   "a checker for linearizable histories; the model computes the answer of each operation",
		code:  []string{".", "storetest/model"},
		tests: []string{"memstore"},
	},
	"storetest/model": {
		why:  "a second, independent implementation of the decisions: importing algo would repeat algo's mistakes",
		code: []string{".", "internal/micros"},
	},
}

// libraryThirdParty are the third-party modules of the library's modules.
var libraryThirdParty = map[string]thirdPartyRule{
	"github.com/anishathalye/porcupine": {
		why:  "the linearizability checker",
		code: []string{"storetest/history"},
	},
	"github.com/bradfitz/gomemcache": {
		why:  "the memcached client",
		code: []string{"memcachedstore"},
	},
	"github.com/dunglas/httpsfv": {
		why:   "an independent parser of structured fields, for tests",
		tests: []string{"grpclimit", "httpfields", "httplimit", service("forwardauth"), service("httpapi")},
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
	"github.com/sony/gobreaker/v2": {
		why:  "the circuit breaker",
		code: []string{"fallback"},
	},
	"github.com/yuin/gopher-lua": {
		why:   "a Lua VM that runs the Lua twins in tests",
		tests: []string{"algo", "conformance"},
	},
	"go.uber.org/goleak": {
		why:  "the goroutine leak detector",
		code: []string{"internal/leaktest"},
	},
	"maragu.dev/gomponents": {
		why:  "HTML elements with escaped text, without reflection: ADR 47",
		code: []string{"replay", service("dashboard"), service("demo"), service("webpage")},
	},
}
