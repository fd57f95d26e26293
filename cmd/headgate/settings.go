package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// settingGroups has the groups of flags in the order in which help lists them. Each
// setting is in exactly one group. --help lists the common settings, --help-all also
// the rare ones.
var settingGroups = []struct{ heading, common, rare string }{
	{"General", "enforcement", ""},
	{"HTTP API", "http.addr http.token trusted_proxies", "trusted_headers http.allowed_hosts http.insecure http.max_connections http.max_memory_bytes"},
	{
		"Redis-compatible endpoint (RESP)", "resp.addr resp.user resp.password",
		"resp.insecure resp.event_loops resp.max_clients resp.max_request_bytes resp.max_memory_bytes resp.request_timeout resp.write_timeout resp.idle_timeout",
	},
	{
		"Envoy rate limit service (gRPC)", "grpc.addr envoy.config envoy.xds.server envoy.shadow envoy.headers",
		"grpc.max_connections grpc.max_streams grpc.max_message_bytes grpc.max_memory_bytes grpc.max_connection_age " +
			"grpc.max_connection_age_grace envoy.merge_domains envoy.dot_files envoy.all_files envoy.start_anyway " +
			"envoy.need_domains envoy.calendar_months envoy.charge envoy.local_denials envoy.quota envoy.metadata envoy.header_limit envoy.header_remaining " +
			"envoy.header_reset envoy.near_limit envoy.json_503 envoy.response_ms",
	},
	{"Admin and metrics", "admin.addr admin.token metrics.addr", "admin.keys"},
	{
		"Telemetry", "otlp.endpoint otlp.sample statsd.addr",
		"otlp.traces_endpoint otlp.metrics_endpoint otlp.protocol otlp.headers otlp.compression otlp.timeout otlp.tls_cert otlp.tls_key " +
			"otlp.server_ca otlp.server_name otlp.service_name otlp.resource_attributes otlp.traces otlp.sampler otlp.metrics " +
			"otlp.metrics_interval statsd.protocol statsd.interval statsd.tags statsd.tag_format",
	},
	{"Store", "store on_store_error instances store_budget", "overrides_poll"},
	{
		"Request limits", "max_key_bytes max_checks max_extend_checks max_body_bytes",
		"max_header_bytes header_timeout read_timeout write_timeout idle_timeout",
	},
	{"Logging", "log.format log.level log.denials", "log.keys log.hash_secret"},
	{
		"Events", "events.log events.webhook events.webhook_secret",
		"events.webhook_old_secret events.webhook_timeout events.webhook_attempts events.keys events.interval events.queue",
	},
	{"Shutdown", "drain_delay shutdown_timeout", ""},
	{
		"TLS", "http.tls_cert http.tls_key http.client_ca",
		"http.client_name resp.tls_cert resp.tls_key resp.client_ca resp.client_name " +
			"grpc.tls_cert grpc.tls_key grpc.client_ca grpc.client_name",
	},
	{
		"xDS control plane", "",
		"envoy.xds.node_id envoy.xds.node_metadata envoy.xds.headers envoy.xds.tls envoy.xds.tls_cert " +
			"envoy.xds.tls_key envoy.xds.server_ca envoy.xds.server_name envoy.xds.max_message_bytes " +
			"envoy.xds.connect_retry envoy.xds.backoff_initial envoy.xds.backoff_max envoy.xds.backoff_random",
	},
}

// settingFlags are the flags that set settings of the configuration, and --config.
type settingFlags struct {
	file   string
	values map[string]*settingFlag // flags by the path of their setting
}

// settingFlag is the flag of one setting. The text is parsed later, together with the
// other sources of settings, so that all errors are reported together.
type settingFlag struct {
	setting config.Setting
	text    string
	given   bool
}

// String returns the text that was given on the command line, or the default.
func (f *settingFlag) String() string {
	if f.given {
		return f.text
	}
	return f.setting.Default
}

// Set stores a text. If the flag of a list is repeated, the texts are joined.
func (f *settingFlag) Set(text string) error {
	if f.given && f.Type() == "list" {
		text = f.text + "," + text
	}
	f.text, f.given = text, true
	return nil
}

// Type returns the placeholder of the flag's value in help texts, such as duration.
func (f *settingFlag) Type() string { return f.setting.Kind() }

// fileFlag is a flag that names a file. An empty name is an error: it would otherwise
// mean that there is no file, for example after a shell variable that is not set.
type fileFlag string

// String returns the name of the file.
func (f *fileFlag) String() string { return string(*f) }

// Set sets the name of the file.
func (f *fileFlag) Set(name string) error {
	if name == "" {
		return errors.New("empty name of a file")
	}
	*f = fileFlag(name)
	return nil
}

// Type returns the placeholder of the flag's value in help texts.
func (*fileFlag) Type() string { return "file" }

// add defines --config and a flag for each setting whose path is in only. Without only,
// it defines the flags of all settings, and --help-all.
func (s *settingFlags) add(f *pflag.FlagSet, only ...string) {
	f.SortFlags = false
	f.VarP((*fileFlag)(&s.file), "config", "c", "configuration `file`")
	setGroup(f, settingGroups[0].heading, "config")
	s.values = make(map[string]*settingFlag)
	byPath := make(map[string]config.Setting)
	for _, setting := range config.Settings() {
		byPath[setting.Path] = setting
	}
	for _, group := range settingGroups {
		common := strings.Fields(group.common)
		for i, path := range append(common, strings.Fields(group.rare)...) {
			if len(only) > 0 && !slices.Contains(only, path) {
				continue
			}
			flag := s.addOne(f, byPath[path])
			flag.Annotations = map[string][]string{groupAnnotation: {group.heading}}
			if i >= len(common) {
				flag.Annotations[rareAnnotation] = []string{}
			}
		}
	}
	if len(only) == 0 {
		f.Bool(helpAllFlag, false, "help with all flags")
	}
}

func (s *settingFlags) addOne(f *pflag.FlagSet, setting config.Setting) *pflag.Flag {
	value := &settingFlag{setting: setting}
	s.values[setting.Path] = value
	flag := f.VarPF(value, setting.Flag, "", setting.Help)
	if value.Type() == "bool" {
		flag.NoOptDefVal = "true"
	}
	return flag
}

// sources returns the sources of a configuration: the flags that were given, the
// environment variables, and the file that --config or HEADGATE_CONFIG names.
func (s *settingFlags) sources() config.Sources {
	from := config.Sources{
		Path: s.file, Flags: make(map[string]string), Lookup: os.LookupEnv, Environ: os.Environ(), Others: demoVariables(),
		Ratelimit: calledRatelimit(), CheckStore: checkStoreURL, MaxOpenHolds: maxOpenHolds,
	}
	if from.Path == "" {
		from.Path = os.Getenv(config.FileVariable)
	}
	for path, value := range s.values {
		if value.given {
			from.Flags[path] = value.text
		}
	}
	return from
}

// calledRatelimit reports whether this program was started under the name ratelimit, as
// a replacement of the program of envoyproxy/ratelimit.
func calledRatelimit() bool { return filepath.Base(os.Args[0]) == "ratelimit" }

// demoVariables returns the environment variables that set flags of “headgate demo”.
func demoVariables() (names []string) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(demoSettings).flags(f)
	f.VisitAll(func(flag *pflag.Flag) { names = append(names, service.Variable(flag.Name)) })
	return names
}

// checkStoreURL returns an error if a store URL is invalid. It does no I/O.
func checkStoreURL(url config.StoreURL) error {
	store, err := storeopen.Open(string(url), &storeopen.Options{Volatile: true})
	if err != nil {
		return err
	}
	return store.Close()
}

func maxOpenHolds(url config.StoreURL) int { return storeopen.MaxOpenHolds(string(url)) }
