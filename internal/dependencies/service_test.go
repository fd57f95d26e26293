package dependencies_test

// serviceRules are the packages of the module cmd/headgate.
var serviceRules = map[string]packageRule{
	"cmd/headgate": {
		why: "the command line: flags and printing",
		code: []string{
			".", "algo", "clientaddr", "lease", "memstore", "replay", service("admin"), service("config"), service("demo"),
			service("engine"), service("httpapi"), service("load"), service("localaccess"), service("logs"),
			service("overrides"), service("routing"), service("service"), service("starter"), service("storeopen"),
			service("suggest"), service("tlsfiles"),
		},
		tests: []string{
			"internal/testserver", "loginguard", "storetest/crowd", "storetest/model", service("chromium"), service("controlplane"),
			service("quotaclient"),
		},
	},
	service("access"): {
		why:  "tokens and their scopes, for the listeners of HTTP; it knows none of them",
		code: []string{"internal/problem"},
	},
	service("activity"): {
		why:  "counts in memory; it knows neither the engine nor an interface",
		code: []string{"."},
	},
	service("admin"): {
		why: "the interface of operators; it shows and changes what others supply",
		code: []string{
			".", "internal/problem", service("access"), service("activity"), service("answerfields"), service("audit"), service("bounded"),
			service("engine"), service("localaccess"), service("logs"), service("overrides"), service("suggest"),
		},
		tests: []string{"internal/leaktest", "internal/root", "memstore", service("metrics")},
	},
	service("answerfields"): {
		why:  "the header fields of the engine's answers, for every interface over HTTP",
		code: []string{"httpfields", service("engine"), "internal/memo"},
	},
	service("audit"): {
		why:   "who changed what, in a document of the store; it knows no interface",
		code:  []string{"."},
		tests: []string{"memstore", "redisstore", "internal/testserver"},
	},
	service("bans"): {
		why:   "it counts the denials that it observes in the engine, and knows no interface",
		code:  []string{".", service("engine"), service("logs")},
		tests: []string{"internal/leaktest", "internal/testserver", "memstore", "redisstore"},
	},
	service("bounded"): {
		why: "limits on the connections of a listener and their memory, for every interface",
	},
	service("chromium"): {
		why: "a real browser for tests",
	},
	service("collector"): {
		why: "a receiver of OTLP for tests; it knows the protocol only",
	},
	service("config"): {
		why: "the configuration file, environment and flags",
		code: []string{
			".", "algo", "lease", service("access"), service("engine"), service("events"), service("localaccess"), service("routing"),
			service("suggest"), service("tlsfiles"),
		},
		tests: []string{"internal/leaktest", "memstore", service("httpapi")},
	},
	service("controlplane"): {
		why: "a real xDS server for tests",
	},
	service("dashboard"): {
		why:   "the static files of the page of the admin listener; its tests run the whole service",
		code:  []string{service("webpage")},
		tests: []string{"internal/leaktest", "internal/testserver", service("chromium"), service("config"), service("service")},
	},
	service("demo"): {
		why:   "the demo page over stores that it is given",
		code:  []string{".", "algo", "httpfields", service("localaccess"), service("webpage")},
		tests: []string{"internal/leaktest", "internal/micros", "memstore", service("chromium")},
	},
	service("docsite"): {
		why:   "tests of the documentation site",
		tests: []string{"internal/leaktest", service("chromium")},
	},
	service("engine"): {
		why:   "it decides for every interface over the store that it is given",
		code:  []string{".", "algo", "internal/admission", "internal/calendar", "internal/root", "internal/turn", "internal/memo", service("routing"), service("suggest")},
		tests: []string{"memstore"},
	},
	service("envoyconfig"): {
		why:  "envoyproxy/ratelimit's configuration, from files or a control plane, as rules",
		code: []string{".", "algo", "internal/calendar", service("engine"), service("suggest")},
	},
	service("envoyxds"): {
		why:   "an xDS client: it knows the protocol and neither rules nor interfaces",
		code:  []string{service("tlsfiles")},
		tests: []string{"internal/leaktest", "internal/testserver", service("controlplane")},
	},
	service("events"): {
		why:   "it reports what it observes in the engine, and knows no interface",
		code:  []string{".", "internal/memo", "internal/root", service("bans"), service("engine")},
		tests: []string{"internal/leaktest", "internal/testserver", "memstore", "redisstore"},
	},
	service("forwardauth"): {
		why: "an interface knows its protocol and the engine; its tests commit holds over HTTP",
		code: []string{
			".", "clientaddr", "internal/problem", service("answerfields"), service("engine"), service("logs"), service("routing"),
		},
		tests: []string{
			"internal/admission/admissiontest", "internal/leaktest", "internal/mutation", "internal/testserver", "memstore", service("httpapi"),
		},
	},
	service("httpapi"): {
		why: "an interface knows its protocol and the engine; its tests check the OpenAPI document, which covers the other interfaces over HTTP",
		code: []string{
			".", "algo", "internal/problem", service("access"), service("answerfields"), service("bounded"), service("engine"),
			service("localaccess"), service("logs"), service("suggest"),
		},
		tests: []string{
			"internal/leaktest", "internal/mutation", "internal/testserver", "memstore", "redisstore", service("envoyconfig"),
			service("forwardauth"), service("rlsapi"),
		},
	},
	service("load"): {
		why:  "a load generator: a client of every interface",
		code: []string{"."},
		tests: []string{
			"internal/leaktest", "memstore", service("engine"), service("envoyconfig"), service("httpapi"),
			service("respapi"), service("rlsapi"),
		},
	},
	service("hangup"): {
		why: "it handles SIGHUP before other packages are initialized, so it imports none",
	},
	service("localaccess"): {
		why: "who counts as local: listeners, Host and Origin of requests",
	},
	service("logs"): {
		why: "bounded, sampled logging",
	},
	service("metrics"): {
		why:   "it observes the engine and knows no interface",
		code:  []string{".", service("activity"), service("engine"), service("logs")},
		tests: []string{"memstore", service("storeopen")},
	},
	service("otlp"): {
		why:   "the export over OTLP of spans and metrics that it is given",
		tests: []string{"internal/leaktest", service("collector")},
	},
	service("overrides"): {
		why:   "overrides in a document of the store, for the engine; it knows no interface",
		code:  []string{".", service("engine")},
		tests: []string{"internal/leaktest", "internal/testserver", "memcachedstore", "memstore", "redisstore"},
	},
	service("respapi"): {
		why:   "an interface knows its protocol and the engine",
		code:  []string{".", service("access"), service("bounded"), service("engine")},
		tests: []string{"algo", "internal/leaktest", "internal/mutation", "internal/testserver", "memstore", "redisstore"},
	},
	service("quotaclient"): {
		why: "a client of the rate limit quota service for tests; it knows Envoy's protocol only",
	},
	service("rlsapi"): {
		why:   "an interface knows its protocol and the engine; rules come from envoyproxy/ratelimit's configuration",
		code:  []string{".", "internal/key", "internal/micros", service("bounded"), service("engine"), service("envoyconfig")},
		tests: []string{"fallback", "internal/leaktest", "internal/mutation", "internal/testserver", "memstore", "redisstore", service("quotaclient")},
	},
	service("routing"): {
		why:  "it finds the policies and keys of a request and decides nothing",
		code: []string{"clientaddr", "internal/key", "internal/urlpath"},
	},
	service("service"): {
		why: "it builds the service from its parts in the order of their dependencies, and runs it",
		code: []string{
			".", "fallback", "lease", "memstore", service("access"), service("activity"), service("admin"), service("audit"), service("bans"),
			service("config"), service("dashboard"), service("demo"), service("engine"), service("events"), service("envoyconfig"), service("envoyxds"),
			service("forwardauth"), service("hangup"),
			service("httpapi"), service("localaccess"), service("logs"), service("metrics"), service("otlp"), service("overrides"), service("respapi"),
			service("rlsapi"), service("statsd"), service("storeopen"), service("tlsfiles"), service("tracing"),
		},
		tests: []string{
			"algo", "httplimit", "internal/leaktest", "internal/testserver", "memcachedstore", "redisstore", "replay",
			service("collector"), service("routing"),
		},
	},
	service("starter"): {
		why: "annotated configurations for a first use; it knows their text only",
	},
	service("statsd"): {
		why:   "a client of statsd for values that it is given",
		tests: []string{"internal/leaktest", "internal/testserver"},
	},
	service("storeopen"): {
		why:   "it turns a URL into a store, so it imports all stores",
		code:  []string{".", "fallback", "internal/diagnosis", "lease", "memcachedstore", "memstore", "redisstore"},
		tests: []string{"internal/testserver"},
	},
	service("suggest"): {
		why: "it finds the name that a misspelled one means",
	},
	service("tracing"): {
		why:   "spans around the interfaces, the engine's observer and a store; it knows no interface",
		code:  []string{".", "internal/recorder", service("engine")},
		tests: []string{"memstore"},
	},
	service("tlsfiles"): {
		why:   "TLS configurations from files, read again when they change",
		tests: []string{"internal/testserver"},
	},
	service("webpage"): {
		why:  "what the demo page and the dashboard share: embedded files, their header fields, styles and the theme",
		code: []string{"internal/theme"},
	},
}

// serviceThirdParty are the third-party modules of cmd/headgate and grpclimit.
var serviceThirdParty = map[string]thirdPartyRule{
	"github.com/HdrHistogram/hdrhistogram-go": {
		why:  "the load generator's latencies",
		code: []string{service("load")},
	},
	"github.com/cenkalti/backoff/v5": {
		why:  "delays between attempts to reach the control plane, and to send webhooks",
		code: []string{service("envoyxds"), service("events")},
	},
	"github.com/chromedp": {
		why:   "a real browser in tests",
		code:  []string{service("chromium")},
		tests: []string{"cmd/headgate", service("dashboard"), service("demo"), service("docsite")},
	},
	"github.com/envoyproxy/go-control-plane": {
		why: "Envoy's protocol messages; a real xDS server in tests",
		code: []string{
			service("controlplane"), service("envoyconfig"), service("envoyxds"), service("load"),
			service("quotaclient"), service("rlsapi"),
		},
		tests: []string{"cmd/headgate", service("service")},
	},
	"github.com/fsnotify/fsnotify": {
		why:  "watching configuration files",
		code: []string{service("config")},
	},
	"github.com/getkin/kin-openapi": {
		why:   "it checks answers against the OpenAPI document in tests",
		tests: []string{service("admin"), service("httpapi")},
	},
	"github.com/go-json-experiment/json": {
		why:  "it decodes JSON strictly: no unknown or duplicate names, no invalid UTF-8; the implementation of encoding/json/v2",
		code: []string{service("admin")},
	},
	"github.com/prometheus": {
		why:  "metrics",
		code: []string{service("metrics"), service("otlp")},
	},
	"github.com/rogpeppe/go-internal": {
		why:   "scripts that test the command line, and the difference of two configurations",
		code:  []string{service("config")},
		tests: []string{"cmd/headgate"},
	},
	"github.com/santhosh-tekuri/jsonschema/v6": {
		why:   "it checks the JSON Schema of the configuration in tests",
		tests: []string{service("config")},
	},
	"github.com/spf13": {
		why:  "the command line",
		code: []string{"cmd/headgate"},
	},
	"go.yaml.in/yaml/v2": {
		why:   "the YAML library of envoyproxy/ratelimit, which judges our reading of its files in tests",
		tests: []string{service("envoyconfig")},
	},
	"go.yaml.in/yaml/v4": {
		why:   "YAML with positions; tests read the alerting rules and Envoy's configuration",
		code:  []string{service("config"), service("envoyconfig")},
		tests: []string{"cmd/headgate", service("metrics")},
	},
	"go.opentelemetry.io/contrib/bridges/prometheus": {
		why:  "Prometheus metrics in the form of OpenTelemetry",
		code: []string{service("otlp")},
	},
	"go.opentelemetry.io/otel": {
		why:  "the API of OpenTelemetry",
		code: []string{"otelheadgate", service("otlp"), service("tracing")},
	},
	"go.opentelemetry.io/otel/exporters": {
		why:  "the exporters for OTLP",
		code: []string{service("otlp")},
	},
	"go.opentelemetry.io/otel/sdk": {
		why:   "the SDK of OpenTelemetry",
		code:  []string{service("otlp")},
		tests: []string{"otelheadgate", service("tracing")},
	},
	"go.opentelemetry.io/proto/otlp": {
		why:   "messages and services of OTLP, for a receiver in tests",
		code:  []string{service("collector")},
		tests: []string{service("service")},
	},
	"golang.org/x/sys": {
		why:   "event loops, socket options, and limits of processes in tests",
		code:  []string{service("respapi"), service("service")},
		tests: []string{"cmd/headgate"},
	},
	"golang.org/x/term": {
		why:  "whether output is a terminal",
		code: []string{"cmd/headgate"},
	},
	"google.golang.org/genproto": {
		why:  "error details of gRPC",
		code: []string{"grpclimit", service("envoyxds")},
	},
	"google.golang.org/grpc": {
		why: "gRPC servers and clients",
		code: []string{
			"grpclimit", service("collector"), service("controlplane"), service("envoyxds"), service("load"), service("otlp"), service("rlsapi"),
			service("service"), service("tracing"),
		},
		tests: []string{"cmd/headgate", service("service")},
	},
	"google.golang.org/protobuf": {
		why:   "protocol messages",
		code:  []string{"grpclimit", service("collector"), service("envoyconfig"), service("envoyxds"), service("quotaclient"), service("rlsapi")},
		tests: []string{"cmd/headgate", service("service")},
	},
}
