package headgate_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/headgate/headgate"

// room is what a package may import beside the standard library. A package of ours is named by its folder, the root by “.”.
// Tests may import what the code may, and the package itself.
type room struct {
	why   string   // why the package may import just that
	code  []string // what its code may import
	tests []string // what its tests may import as well
}

// law has a room for every package of this module. A new package needs a new room, and so a reason.
var law = map[string]room{
	".": {
		why:   "what people import first: it drags nothing along",
		tests: []string{"memstore", "internal/leaktest"},
	},
	"algo": {
		why:   "arithmetic alone: it knows limits and decisions, and neither stores nor doors; a Lua VM runs the twins in its tests",
		code:  []string{"."},
		tests: []string{"storetest/model", "github.com/yuin/gopher-lua", "github.com/yuin/gopher-lua/ast", "github.com/yuin/gopher-lua/parse"},
	},
	"conformance": {
		why:   "vectors for any limiter, in any language: the files and how to read them, run in its tests by all that we have",
		tests: []string{".", "algo", "memstore", "storetest/model", "github.com/yuin/gopher-lua"},
	},
	"memstore": {
		why:   "a store knows how to apply a step, and no other store",
		code:  []string{".", "algo"},
		tests: []string{"storetest"},
	},
	"memcachedstore": {
		why:   "a store knows how to apply a step, and no other store; the client of memcached stands here and nowhere else",
		code:  []string{".", "algo", "github.com/bradfitz/gomemcache/memcache"},
		tests: []string{"storetest", "storetest/crowd", "storetest/faults", "storetest/history", "internal/testserver", "internal/leaktest"},
	},
	"fallback": {
		why:   "it stands around any store and beside any other, so it knows none; the circuit breaker is a library's",
		code:  []string{".", "github.com/sony/gobreaker/v2"},
		tests: []string{"memstore", "redisstore", "storetest", "internal/testserver", "internal/leaktest"},
	},
	"redisstore": {
		why:  "a store knows how to apply a step, and no other store; the Redis client stands here alone",
		code: []string{".", "algo", "github.com/redis/rueidis"},
		tests: []string{
			"storetest", "storetest/crowd", "storetest/faults", "storetest/history", "fallback", "memstore", "internal/testserver",
			"internal/leaktest",
		},
	},
	"redisstore/goredis": {
		why:   "for programs that hold a go-redis client already: no other package drags it along",
		code:  []string{"redisstore", "github.com/redis/go-redis/v9"},
		tests: []string{".", "storetest", "internal/testserver"},
	},
	"storetest": {
		why:   "it judges stores, so it knows none; the reference store in its tests is made of algo's steps",
		code:  []string{".", "storetest/model"},
		tests: []string{"algo"},
	},
	"storetest/model": {
		why:  "the decisions stated a second time: with algo's arithmetic it would repeat algo's mistakes",
		code: []string{"."},
	},
	"storetest/history": {
		why:   "the search for an order of operations is a well-kept checker's; the model says what each would be answered",
		code:  []string{".", "storetest/model", "github.com/anishathalye/porcupine"},
		tests: []string{"memstore"},
	},
	"storetest/faults": {
		why:   "it breaks what a store stands on, by the hooks that it is given, and has histories judge what was answered",
		code:  []string{".", "storetest/history"},
		tests: []string{"memstore"},
	},
	"storetest/crowd": {
		why:   "it counts what many processes were admitted, and knows the bounds alone",
		code:  []string{"."},
		tests: []string{"memstore"},
	},
	"httpfields": {
		why:   "header fields from limits and decisions: it knows neither requests nor stores; an independent parser reads them in its tests",
		code:  []string{"."},
		tests: []string{"memstore", "github.com/dunglas/httpsfv"},
	},
	"clientaddr": {
		why: "whose request it is, by its header and its peer: nothing of limits is in it",
	},
	"httplimit": {
		why:   "middleware for net/http: the standard library and ours, over whatever store it is given",
		code:  []string{"internal/problem", ".", "clientaddr", "httpfields", "internal/keytext"},
		tests: []string{"memstore", "fallback", "redisstore", "internal/testserver", "github.com/dunglas/httpsfv", "internal/leaktest"},
	},
	"grpclimit": {
		why: "interceptors for gRPC, which stands here and in the service; whose call it is, and the fields, as for HTTP",
		code: []string{
			".", "clientaddr", "httpfields", "internal/keytext",
			"google.golang.org/grpc", "google.golang.org/grpc/codes", "google.golang.org/grpc/metadata", "google.golang.org/grpc/peer",
			"google.golang.org/grpc/status", "google.golang.org/genproto/googleapis/rpc/errdetails",
			"google.golang.org/protobuf/protoadapt", "google.golang.org/protobuf/types/known/durationpb",
		},
		tests: []string{
			"memstore", "fallback", "redisstore", "internal/testserver", "github.com/dunglas/httpsfv", "internal/leaktest",
			"google.golang.org/grpc/credentials/insecure", "google.golang.org/grpc/health", "google.golang.org/grpc/health/grpc_health_v1",
			"google.golang.org/grpc/interop/grpc_testing", "google.golang.org/grpc/test/bufconn",
		},
	},
	"internal/keytext": {
		why: "how keys of several parts are written: bytes, and nothing of limits",
	},
	"loginguard": {
		why:   "guards of login forms stand on limits alone, over whatever store they are given",
		code:  []string{".", "clientaddr", "httplimit"},
		tests: []string{"memstore", "redisstore", "memcachedstore", "fallback", "internal/testserver"},
	},
	"replay": {
		why:   "it is given its stores, and makes none",
		code:  []string{"."},
		tests: []string{"algo", "memstore", "replay/internal/biglog", "internal/leaktest"},
	},
	"replay/internal/biglog": {
		why: "it writes long logs for tests, and knows nothing of limits",
	},
	"internal/leaktest": {
		why:  "goroutines that any package's tests leave behind: nothing of limits is in it",
		code: []string{"go.uber.org/goleak"},
	},
	"internal/bounded": {
		why: "listeners with a bound on their connections: nothing of limits is in it",
	},
	"internal/logs": {
		why: "what keeps a log from doing harm, for the service's log and for each server's: nothing of ours is in it",
	},
	"internal/controlplane": {
		why: "a real xDS server for tests: go-control-plane's stands here alone, and nothing of ours",
		code: []string{
			"github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3", "github.com/envoyproxy/go-control-plane/pkg/cache/types",
			"github.com/envoyproxy/go-control-plane/pkg/cache/v3", "github.com/envoyproxy/go-control-plane/pkg/resource/v3",
			"github.com/envoyproxy/go-control-plane/pkg/server/v3", "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3",
			"google.golang.org/grpc", "google.golang.org/grpc/credentials", "google.golang.org/grpc/metadata",
		},
	},
	"internal/problem": {
		why: "bodies of answers without a decision, the same from the middleware and the service's doors: nothing of limits is in it",
	},
	"internal/testserver": {
		why: "servers and networks that fail, for the tests of stores: it speaks their protocols by hand and knows nothing of ours",
	},
	"service": {
		why: "all doors side by side, in a test: whichever one a request comes through, the answer is the limiter's",
		tests: []string{
			".", "algo", "memstore", "redisstore", "internal/testserver", "service/engine", "service/envoyconfig",
			"service/forwardauth", "service/httpapi", "service/respapi", "service/rlsapi", "service/storeopen",
			"github.com/redis/go-redis/v9", "google.golang.org/grpc",
			"google.golang.org/grpc/codes", "google.golang.org/grpc/status",
			"google.golang.org/grpc/credentials/insecure", "google.golang.org/protobuf/types/known/wrapperspb",
			"github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3",
			"github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3",
		},
	},
	"service/engine": {
		why:   "it decides for every door: it is given a store and knows no door",
		code:  []string{".", "algo", "service/internal/memo", "service/routing"},
		tests: []string{"memstore"},
	},
	"service/routing": {
		why:  "which policies a request is under, and whose budget it spends: it decides nothing",
		code: []string{"clientaddr"},
	},
	"service/config": {
		why: "the one configuration file, and the one place that reads the environment: YAML and the watching of files stand here alone",
		code: []string{
			".", "algo", "service/engine", "service/routing", "go.yaml.in/yaml/v4", "go.yaml.in/yaml/v4/plugin/loaderlimits",
			"github.com/fsnotify/fsnotify",
		},
		tests: []string{"memstore", "service/httpapi", "github.com/santhosh-tekuri/jsonschema/v6", "internal/leaktest"},
	},
	"service/internal/memo": {
		why: "a bounded map, and nothing of ours in it",
	},
	"service/internal/answerfields": {
		why:  "the header fields of the engine's answers, for every door that speaks HTTP: it knows neither requests nor stores",
		code: []string{"httpfields", "service/engine", "service/internal/memo"},
	},
	"service/forwardauth": {
		why: "a door knows its protocol and the engine: no store and no other door; real proxies ask it in its tests",
		code: []string{
			"internal/problem",
			".", "clientaddr", "service/engine", "service/internal/answerfields", "service/routing",
		},
		tests: []string{"memstore", "internal/testserver", "github.com/dunglas/httpsfv", "internal/leaktest"},
	},
	"service/storeopen": {
		why:   "the one place that turns a URL into a store, so it knows them all",
		code:  []string{".", "memstore", "redisstore", "memcachedstore", "fallback"},
		tests: []string{"internal/testserver", "internal/leaktest"},
	},
	"service/httpapi": {
		why:  "a door knows its protocol and the engine: no store and no other door, but for its document, which tells of all that stand at it",
		code: []string{"internal/logs", "internal/problem", ".", "service/engine", "service/internal/answerfields"},
		tests: []string{
			"memstore", "redisstore", "internal/testserver", "service/envoyconfig", "service/forwardauth", "service/rlsapi", "github.com/dunglas/httpsfv",
			"github.com/getkin/kin-openapi/openapi3", "github.com/getkin/kin-openapi/openapi3filter", "github.com/getkin/kin-openapi/routers",
			"internal/leaktest",
		},
	},
	"service/envoyconfig": {
		why: "what envoyproxy/ratelimit's files say, or a control plane, as rules: it decides nothing, and YAML is read here as that service reads it",
		code: []string{
			".", "algo", "service/engine", "go.yaml.in/yaml/v4", "go.yaml.in/yaml/v4/plugin/loaderlimits",
			"google.golang.org/protobuf/types/known/structpb", "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3",
		},
		tests: []string{"google.golang.org/protobuf/encoding/protojson", "google.golang.org/protobuf/proto"},
	},
	"service/envoyxds": {
		why: "a client of control planes: it knows their protocol, and neither rules nor doors; times between attempts are a library's",
		code: []string{
			"github.com/cenkalti/backoff/v5", "github.com/envoyproxy/go-control-plane/envoy/config/core/v3",
			"github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3",
			"github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3",
			"google.golang.org/genproto/googleapis/rpc/status", "google.golang.org/grpc", "google.golang.org/grpc/backoff",
			"google.golang.org/grpc/codes", "google.golang.org/grpc/credentials", "google.golang.org/grpc/credentials/insecure",
			"google.golang.org/grpc/keepalive", "google.golang.org/grpc/metadata", "google.golang.org/grpc/status",
			"google.golang.org/protobuf/proto", "google.golang.org/protobuf/types/known/anypb",
			"google.golang.org/protobuf/types/known/structpb",
		},
		tests: []string{"internal/controlplane", "internal/testserver", "internal/leaktest"},
	},
	"service/rlsapi": {
		why: "a door knows its protocol and the engine: no store and no other door; gRPC's server and Envoy's protocol stand here",
		code: []string{
			".", "internal/bounded", "internal/keytext", "service/engine", "service/envoyconfig",
			"github.com/envoyproxy/go-control-plane/envoy/config/core/v3",
			"github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3",
			"github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3",
			"google.golang.org/grpc", "google.golang.org/grpc/codes", "google.golang.org/grpc/credentials", "google.golang.org/grpc/health",
			"google.golang.org/grpc/encoding", "google.golang.org/grpc/health/grpc_health_v1", "google.golang.org/grpc/keepalive",
			"google.golang.org/grpc/mem", "google.golang.org/grpc/reflection", "google.golang.org/grpc/status",
			"google.golang.org/protobuf/encoding/protojson", "google.golang.org/protobuf/encoding/protowire",
			"google.golang.org/protobuf/types/known/durationpb", "google.golang.org/protobuf/types/known/structpb",
		},
		tests: []string{
			"memstore", "redisstore", "fallback", "internal/testserver", "github.com/envoyproxy/go-control-plane/envoy/type/v3",
			"google.golang.org/grpc/credentials/insecure", "google.golang.org/grpc/reflection/grpc_reflection_v1", "google.golang.org/grpc/test/bufconn",
			"google.golang.org/protobuf/proto", "google.golang.org/protobuf/types/known/wrapperspb", "internal/leaktest",
		},
	},
	"service/admin": {
		why:   "a door that is given what it answers with: it knows neither the engine nor what is measured",
		code:  []string{"internal/bounded", "internal/logs"},
		tests: []string{"internal/leaktest"},
	},
	"service/load": {
		why: "a client of every door, to measure them: it knows their protocols from outside, and no door; the histogram stands here alone",
		code: []string{
			".", "github.com/HdrHistogram/hdrhistogram-go", "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3",
			"github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3", "google.golang.org/grpc", "google.golang.org/grpc/credentials",
			"google.golang.org/grpc/credentials/insecure",
		},
		tests: []string{
			"memstore", "service/engine", "service/envoyconfig", "service/httpapi", "service/respapi", "service/rlsapi", "internal/leaktest",
		},
	},
	"service/metrics": {
		why: "it hears of what doors are asked, decides nothing and knows no door: Prometheus and the hash of keys stand here alone",
		code: []string{
			".", "internal/logs", "service/engine", "github.com/dchest/siphash", "github.com/prometheus/client_golang/prometheus",
			"github.com/prometheus/client_golang/prometheus/collectors", "github.com/prometheus/client_golang/prometheus/promhttp",
		},
		tests: []string{"memstore", "service/storeopen", "github.com/prometheus/client_golang/prometheus/testutil", "github.com/prometheus/client_model/go"},
	},
	"service/demo": {
		why:  "a page that shows what limiters over a store answer: it knows no store and no door; a real browser looks at it in its tests",
		code: []string{".", "algo", "httpfields"},
		tests: []string{
			"memstore", "github.com/chromedp/cdproto/accessibility", "github.com/chromedp/cdproto/browser",
			"github.com/chromedp/cdproto/emulation", "github.com/chromedp/cdproto/log", "github.com/chromedp/cdproto/runtime",
			"github.com/chromedp/chromedp", "github.com/chromedp/chromedp/kb", "internal/leaktest",
		},
	},
	"service/respapi": {
		why:  "a door knows its protocol and the engine: no store and no other door; the system calls of its event loops are a library's",
		code: []string{".", "service/engine", "golang.org/x/sys/unix"},
		tests: []string{
			"memstore", "fallback", "redisstore", "internal/testserver", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
			"internal/leaktest",
		},
	},
	"cmd/headgate": {
		why: "it wires everything; only here are a command line, a progress bar and a terminal, and what the system does with sockets",
		code: []string{
			".", "algo", "clientaddr", "internal/logs", "memstore", "replay", "service/config", "service/demo", "service/admin", "service/load", "service/metrics", "service/engine", "service/envoyconfig", "service/envoyxds",
			"service/forwardauth", "service/httpapi", "service/respapi", "service/rlsapi", "service/routing", "service/storeopen",
			"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/schollz/progressbar/v3", "golang.org/x/sys/unix", "golang.org/x/term",
		},
		tests: []string{
			"internal/controlplane", "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3",
			"internal/testserver", "github.com/rogpeppe/go-internal/testscript", "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3",
			"github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3", "google.golang.org/grpc", "google.golang.org/grpc/codes", "google.golang.org/grpc/status", "google.golang.org/grpc/credentials", "google.golang.org/grpc/credentials/insecure",
			"google.golang.org/grpc/health/grpc_health_v1",
		},
	},
}

// siblings never import each other in code, whatever the table above comes to say.
var siblings = map[string][]string{
	"stores":                          {"memstore", "redisstore", "memcachedstore", "fallback"},
	"doors":                           {"httplimit", "grpclimit", "service/httpapi", "service/rlsapi", "service/respapi", "service/forwardauth"},
	"what stands beside the library":  {"memstore", "httplimit", "replay", "storetest", "conformance"},
	"the model and what it judges":    {"storetest/model", "algo"},
	"a door and the stores behind it": {"service/httpapi", "memstore", "redisstore", "memcachedstore"},
}

// source is a Go file as the law sees it.
type source struct {
	file    string // from the root, with slashes
	imports []string
}

func (s source) folder() string { return path.Dir(s.file) }

func (s source) test() bool { return strings.HasSuffix(s.file, "_test.go") }

// read takes the imports of one file: whatever its build tags say.
func read(file string, text any) (source, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
	if err != nil {
		return source{}, err
	}
	s := source{file: file}
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, imported)
	}
	return s, nil
}

// sources reads every Go file of this module. A folder with a go.mod of its own is another one.
func sources(root fs.FS) ([]source, error) {
	var all []source
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && (entry.Name() == "testdata" || strings.ContainsAny(entry.Name()[:1], "._") || isModule(root, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		s, err := read(name, text)
		all = append(all, s)
		return err
	})
	return all, err
}

func isModule(root fs.FS, folder string) bool {
	_, err := fs.Stat(root, path.Join(folder, "go.mod"))
	return err == nil
}

// short is an import as the law writes it: a package of ours by its folder. Of the standard library it is empty.
func short(imported string) string {
	if imported == module {
		return "."
	}
	if ours, found := strings.CutPrefix(imported, module+"/"); found {
		return ours
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return ""
	}
	return imported
}

// breaches says how the sources break the law, and where the law speaks of what is not there.
func breaches(all []source, law map[string]room) []string {
	var found []string
	seen := make(map[string]bool)
	for _, s := range all {
		r, ruled := law[s.folder()]
		if !ruled && !seen[s.folder()] {
			found = append(found, fmt.Sprintf("package %s has no room in the law: say what it may import, and why", s.folder()))
		}
		seen[s.folder()] = true
		if ruled {
			found = append(found, r.breachesOf(s)...)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(law)) {
		if !seen[folder] {
			found = append(found, fmt.Sprintf("the law has a room for %s, which is gone", folder))
		}
	}
	return found
}

func (r room) breachesOf(s source) []string {
	var found []string
	for _, imported := range s.imports {
		name := short(imported)
		fine := name == "" || slices.Contains(r.code, name) ||
			s.test() && (name == s.folder() || slices.Contains(r.tests, name))
		if !fine {
			found = append(found, fmt.Sprintf("%s imports %s, for which %s has no room: %s", s.file, imported, s.folder(), r.why))
		}
	}
	return found
}

// excesses says where the table itself allows what the house does not.
func excesses(law map[string]room) []string {
	var found []string
	for _, folder := range slices.Sorted(maps.Keys(law)) {
		r := law[folder]
		if r.why == "" {
			found = append(found, folder+" has a room without a reason")
		}
		for _, name := range r.code {
			if why := forbidden(folder, name); why != "" {
				found = append(found, fmt.Sprintf("the law lets %s import %s: %s", folder, name, why))
			}
		}
	}
	return found
}

// forbidden says why the code of folder may never import name, if so.
func forbidden(folder, name string) string {
	ours := !strings.Contains(strings.Split(name, "/")[0], ".") || name == "."
	wires := strings.HasPrefix(folder, "service/") || strings.HasPrefix(folder, "cmd/") || strings.HasPrefix(folder, "examples/")
	switch {
	case folder == ".":
		return "the root imports the standard library only"
	case !ours && !wires && !slices.Contains([]string{
		"redisstore", "redisstore/goredis", "memcachedstore", "fallback", "grpclimit", "storetest/history", "internal/leaktest",
		"internal/controlplane",
	}, folder):
		return "third parties stand in service, cmd and the rooms made for them"
	case strings.HasPrefix(name, "service/") && !wires:
		return "only service and cmd wire things together"
	case strings.HasPrefix(name, "cmd/"):
		return "nothing imports a command"
	}
	for group, members := range siblings {
		if folder != name && slices.Contains(members, folder) && slices.Contains(members, name) {
			return "siblings never import each other: " + group
		}
	}
	return ""
}

func TestImportsKeepTheLaw(t *testing.T) {
	t.Parallel()
	all, err := sources(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range breaches(all, law) {
		t.Error(breach)
	}
	for _, excess := range excesses(law) {
		t.Error(excess)
	}
}

// The checker is shown what it must find.
func TestLawCatchesPlantedBreaches(t *testing.T) {
	t.Parallel()
	small := map[string]room{
		".":        {why: "small", tests: []string{"memstore", "go.uber.org/goleak"}},
		"memstore": {why: "a store", code: []string{"."}, tests: []string{"storetest"}},
	}
	fine := map[string]string{
		"limit.go":               `package headgate; import "time"`,
		"limit_test.go":          `package headgate_test; import ("testing"; "github.com/headgate/headgate"; "github.com/headgate/headgate/memstore"; "go.uber.org/goleak")`,
		"memstore/store.go":      `package memstore; import ("net/http"; "github.com/headgate/headgate")`,
		"memstore/store_test.go": `package memstore_test; import ("github.com/headgate/headgate/memstore"; "github.com/headgate/headgate/storetest")`,
	}
	for _, c := range []struct {
		name, file, text string
		want             string // part of the only breach; empty if there is none
	}{
		{"nothing", "limit.go", fine["limit.go"], ""},
		{"the root imports one of ours", "wait.go", `package headgate; import "github.com/headgate/headgate/memstore"`, "wait.go imports github.com/headgate/headgate/memstore, for which . has no room: small"},
		{"the root imports a third party", "wait.go", `package headgate; import "github.com/google/uuid"`, "wait.go imports github.com/google/uuid"},
		{"a third party for tests, in code", "wait.go", `package headgate; import "go.uber.org/goleak"`, "wait.go imports go.uber.org/goleak"},
		{"under another name", "wait.go", `package headgate; import m "github.com/headgate/headgate/memstore"`, "wait.go imports"},
		{"for its effects", "wait.go", `package headgate; import _ "github.com/lib/pq"`, "wait.go imports github.com/lib/pq"},
		{"behind a build tag", "wait_plan9.go", "//go:build never\n\npackage headgate\n\nimport `github.com/lib/pq`", "wait_plan9.go imports github.com/lib/pq"},
		{"a sibling", "memstore/log.go", `package memstore; import "github.com/headgate/headgate/replay"`, "memstore/log.go imports github.com/headgate/headgate/replay, for which memstore has no room: a store"},
		{"a sibling in a test", "memstore/log_test.go", `package memstore; import "github.com/headgate/headgate/replay"`, "memstore/log_test.go imports"},
		{"a module whose name begins like ours", "memstore/log.go", `package memstore; import "github.com/headgate/headgate2"`, "imports github.com/headgate/headgate2"},
		{"a package without a room", "redisstore/store.go", `package redisstore; import "github.com/headgate/headgate"`, "package redisstore has no room"},
	} {
		files := maps.Clone(fine)
		files[c.file] = c.text
		var all []source
		for file, text := range files {
			s, err := read(file, text)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			all = append(all, s)
		}
		got := strings.Join(breaches(all, small), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q want %q", c.name, got, c.want)
		}
	}
	if got := breaches(nil, small); len(got) != 2 || !strings.Contains(got[1], "a room for memstore, which is gone") {
		t.Errorf("rooms of packages that are gone: got %q want both named", got)
	}
}

func TestLawReadsThisModuleAndNoOther(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	all, err := sources(fstest.MapFS{
		"go.mod":                  file("module m"),
		"limit.go":                file(`package m; import "a.org/a"`),
		"service/x/deep/deep.go":  file(`package deep; import "b.org/b"`),
		"service/x/deep_test.go":  file("package x"),
		"bench/go.mod":            file("module bench"),
		"bench/peer/peer.go":      file(`package peer; import "c.org/c"`),
		"algo/testdata/sample.go": file(`package sample`),
		".cache/gen.go":           file("package gen"),
		"_old/old.go":             file("package old"),
		"README.md":               file("package readme"),
	})
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprint(s.file, s.imports))
	}
	want := []string{"limit.go[a.org/a]", "service/x/deep/deep.go[b.org/b]", "service/x/deep_test.go[]"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, error %v want %q", got, err, want)
	}
	if _, err := sources(fstest.MapFS{"broken.go": file("package")}); err == nil {
		t.Error("a file that cannot be read: got no error want one")
	}
}

func TestLawDoesNotAllowWhatTheHouseForbids(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder string
		room   room
		want   string
	}{
		{"memstore", room{why: "a store", code: []string{".", "algo"}}, ""},
		{"service/metrics", room{why: "metrics", code: []string{".", "github.com/prometheus/client_golang/prometheus"}}, ""},
		{"redisstore", room{why: "a store", code: []string{".", "github.com/redis/rueidis"}}, ""},
		{"memstore", room{code: []string{"."}}, "without a reason"},
		{".", room{why: "the root", code: []string{"algo"}}, "standard library only"},
		{"algo", room{why: "arithmetic", code: []string{".", "github.com/google/uuid"}}, "third parties"},
		{"replay", room{why: "logs", code: []string{".", "memstore"}}, "siblings never import each other"},
		{"memstore", room{why: "a store", code: []string{".", "storetest"}}, "siblings never import each other"},
		{"service/httpapi", room{why: "a door", code: []string{"service/respapi"}}, "siblings never import each other"},
		{"service/httpapi", room{why: "a door", code: []string{"memstore"}}, "siblings never import each other"},
		{"storetest/model", room{why: "the model", code: []string{"algo"}}, "siblings never import each other"},
		{"memstore", room{why: "a store", code: []string{"service/engine"}}, "only service and cmd"},
		{"service/engine", room{why: "it decides", code: []string{"cmd/headgate"}}, "nothing imports a command"},
	} {
		got := strings.Join(excesses(map[string]room{c.folder: c.room}), "\n")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s may import %v: got %q want %q", c.folder, c.room.code, got, c.want)
		}
	}
}
