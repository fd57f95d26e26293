package config_test

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// Each setting has a path, a flag and a variable with related names. Flags override
// variables, and variables override the file.
func TestSettingNamesAndPrecedence(t *testing.T) {
	t.Parallel()
	values := map[string][3]string{ // by kind: flag, variable, file
		"host:port": {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, "url": {"redis://a", "redis://b", "redis://c"},
		"closed|open|local": {"open", "local", "open"}, "on|shadow|off": {"shadow", "off", "shadow"}, "int": {"11", "12", "13"},
		"duration": {"11ms", "12ms", "13ms"}, "list": {"10.0.0.1,10.1.0.0/16", "10.0.0.2", "10.0.0.3"}, "folder": {"/a", "/b", "/c"},
		"path": {"/a", "/b", "/c"}, "bool": {"true", "false", "true"}, "percent": {"10%", "20%", "30%"}, "all_or_none|each": {"each", "all_or_none", "each"},
		"endpoint": {"127.0.0.1:1", "unix:/2", "off"}, "string": {"a", "b", "c"}, "secret": {"***", "***", "***"},
		"text|json": {"json", "text", "json"}, "debug|info|warn|error": {"warn", "error", "debug"},
		"target": {"a:1", "unix:/b", "dns:///c:3"}, "hash|plain|none": {"plain", "none", "plain"}, "udp|tcp": {"tcp", "udp", "tcp"}, "name|dogstatsd": {"dogstatsd", "name", "dogstatsd"},
		"http/protobuf|grpc": {"grpc", "http/protobuf", "grpc"}, "none|gzip": {"gzip", "none", "gzip"},
		"name": {"always_on", "always_off", "traceidratio"},
	}
	lists := map[string][3]string{ // by path, of other values than those of the kind
		"envoy.xds.node_metadata": {"a=1,b=2", "c=3", "d=4"}, "envoy.xds.headers": {"a: ***,b: ***", "c: ***", "d: ***"},
		"http.allowed_hosts": {"a.example,b.example", "c.example", "*"},
		"trusted_headers":    {"X-Plan,X-Tenant", "X-Plan", "X-Api-Key"},
		"otlp.headers":       {"a: ***,b: ***", "c: ***", "d: ***"}, "otlp.resource_attributes": {"a=1,b=2", "c=3", "d=4"},
		"statsd.tags":           {"a=1,b=2", "c=3", "d=4"},
		"otlp.metrics_interval": {"1s", "2s", "3s"}, "statsd.interval": {"1s", "2s", "3s"},
		// of collectors, not of stores
		"otlp.endpoint": {"http://a", "https://b", "http://c:1/d"}, "otlp.traces_endpoint": {"http://a", "https://b", "http://c"},
		"otlp.metrics_endpoint": {"http://a", "https://b", "http://c"},
	}
	for _, s := range config.Settings() {
		if flat := strings.NewReplacer(".", "-", "_", "-").Replace(s.Path); s.Flag != flat || s.Env != "HEADGATE_"+strings.ToUpper(strings.ReplaceAll(flat, "-", "_")) {
			t.Errorf("%s is called --%s and %s", s.Path, s.Flag, s.Env)
		}
		three, known := values[s.Kind()]
		if list, other := lists[s.Path]; other {
			three = list
		}
		if s.Path == "events.webhook" {
			continue // it requires a secret: see TestEventSettings
		}
		if !known {
			t.Fatalf("%s has kind %s, for which this test has no values", s.Path, s.Kind())
		}
		within := strings.Count(s.Path, ".")
		file := strings.ReplaceAll(s.Path, ".", ": {") + ": " + yamlValue(s.Kind(), three[2]) + strings.Repeat("}", within) + "\n"
		path := filepath.Join(t.TempDir(), "f.yaml")
		replace(t, path, file)
		from := config.Sources{Path: path, Flags: map[string]string{s.Path: three[0]}, Lookup: lookupOf(map[string]string{s.Env: three[1]})}
		mustBe(t, &from, s, three[0], "--"+s.Flag)
		if s.Default == "" {
			from.Flags[s.Path] = ""
			mustBe(t, &from, s, "", "--"+s.Flag)
		}
		from.Flags = nil
		mustBe(t, &from, s, three[1], s.Env)
		from.Lookup = lookupOf(map[string]string{s.Env: ""})
		mustBe(t, &from, s, three[2], path+":1")
		from.Path = ""
		mustBe(t, &from, s, s.Default, "default")
	}
}

func yamlValue(kind, text string) string {
	switch kind {
	case "int", "bool":
		return text
	case "list":
		return `["` + text + `"]`
	}
	return `"` + text + `"`
}

func lookupOf(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := variables[name]; return value, ok }
}

func mustBe(t *testing.T, from *config.Sources, s config.Setting, want, origin string) {
	t.Helper()
	c, err := from.Load()
	if err != nil {
		t.Errorf("%s: %v", s.Path, err)
		return
	}
	if got := s.Text(&c.File); got != want || c.Origins[s.Path] != origin {
		t.Errorf("%s: got %q from %s want %q from %s", s.Path, got, c.Origins[s.Path], want, origin)
	}
}

func TestRedisEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  map[string]string
		file string
		want string
	}{
		{"neither", nil, "", "memory://"},
		{"a host", map[string]string{"REDIS_HOST": "cache"}, "", "redis://cache:6379"},
		{"a port", map[string]string{"REDIS_PORT": "7000"}, "", "redis://127.0.0.1:7000"},
		{"both, IPv6", map[string]string{"REDIS_HOST": "2001:db8::1", "REDIS_PORT": "7000"}, "", "redis://[2001:db8::1]:7000"},
		{"a port from Kubernetes", map[string]string{"REDIS_PORT": "tcp://10.0.0.1:6379"}, "", "memory://"},
		{"a host and a port from Kubernetes", map[string]string{"REDIS_HOST": "cache", "REDIS_PORT": "tcp://10.0.0.1:7000"}, "", "redis://cache:7000"},
		{"a store that is named wins", map[string]string{"REDIS_HOST": "cache", "HEADGATE_STORE": "memory://?max_entries=5"}, "", "memory://?max_entries=5"},
		{"also in the file", map[string]string{"REDIS_HOST": "cache"}, "store: memory://\n", "memory://"},
	} {
		from := config.Sources{Lookup: lookupOf(c.env)}
		if c.file != "" {
			from.Path = filepath.Join(t.TempDir(), "f.yaml")
			replace(t, from.Path, c.file)
		}
		got, err := from.Load()
		if err != nil || string(got.Store) != c.want {
			t.Errorf("%s: got %q, error %v want %q", c.name, string(got.Store), err, c.want)
		}
	}
}

// Errors of all sources are reported together, without passwords.
func TestErrorsFromAllSources(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	replace(t, path, "store: redis://:secret@h\nmax_key_bytes: 0\n")
	from := config.Sources{
		Path: path, Flags: map[string]string{"max_checks": "many", "http.addr": "8080"}, Lookup: lookupOf(map[string]string{"HEADGATE_IDLE_TIMEOUT": "5"}),
	}
	_, err := from.Load()
	got := strings.ReplaceAll(err.Error(), path, "f.yaml")
	want := `f.yaml:2:16: max_key_bytes: 0 is out of range; must be 1 to 65536
--http-addr: "8080" is not an address; must be host:port, such as 127.0.0.1:8080, or off; did you mean 127.0.0.1:8080?
--max-checks: "many" is not a whole number
HEADGATE_IDLE_TIMEOUT: "5" is not a duration such as 5s or 1m30s`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	replace(t, path, "# a comment\nstore: redis://:secret@h\n")
	from = config.Sources{Path: path, CheckStore: func(config.StoreURL) error { return errors.New("invalid URL") }}
	if _, err = from.Load(); err == nil || err.Error() != path+":2:8: store: invalid URL" {
		t.Errorf("an invalid store: got %v, want its position in the file", err)
	}
	from = config.Sources{CheckStore: from.CheckStore, Flags: map[string]string{"store": "redis://:secret@h"}}
	if _, err = from.Load(); err == nil || err.Error() != "--store: invalid URL" {
		t.Errorf("an invalid store: got %v, want its flag", err)
	}
}

// A placeholder that config print wrote instead of a secret produces a warning.
func TestMaskedSecretWarning(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, `store: "redis://***:***@h/1"`+"\nresp: {password: '***'}\nadmin: {token: 'a***'}\n")
	if got := strings.Join(c.Warnings, "\n"); len(c.Warnings) != 2 || !strings.Contains(got, "store contains ***") || !strings.Contains(got, "resp.password contains ***") {
		t.Errorf("got %q, want one for the store and one for the password", c.Warnings)
	}
}

// The error for a public admin listener without a token has the position in the file.
func TestPublicAdminErrorPosition(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	replace(t, path, "# a comment\nadmin: {addr: 0.0.0.0:1}\n")
	from := config.Sources{Path: path}
	if _, err := from.Load(); err == nil || !strings.HasPrefix(err.Error(), path+":2:15: admin.addr: ") {
		t.Errorf("got %v, want its position in the file", err)
	}
}

func TestMasked(t *testing.T) {
	t.Parallel()
	for url, want := range map[config.StoreURL]string{
		"memory://":                               "memory://",
		"redis://h:6379/0":                        "redis://h:6379/0",
		"redis://:secret@h":                       "redis://***:***@h",
		"redis://user:se@cret@h/1?namespace=a":    "redis://***:***@h/1?namespace=a",
		"redis+sentinel://a:secret@h,i/m":         "redis+sentinel://***:***@h,i/m",
		"redis://h?sentinel_password=secret&db=1": "redis://h?sentinel_password=***&db=1",
		"redis://:se?cret@h":                      "redis://:se?***",
	} {
		if got := url.Masked(); got != want {
			t.Errorf("%s: got %s want %s", string(url), got, want)
		}
	}
}

// All rate limit settings of the file reach the engine.
func TestEngine(t *testing.T) {
	t.Parallel()
	opts := mustLoad(t, `
on_store_error: open
enforcement: shadow
max_checks: 7
max_key_bytes: 70
policies:
  a: {limits: [5/1h queue 3, 9/1d], algorithm: leaky_bucket, key: host, enforce: 25%, overrides: {"key:k": [6/1h]}, lease: off}
  b: {limits: [5/1h], on_store_error: closed, shadow: true, holds: {on_expiry: release, over: clip, max_open: 7, cap_amount: true}, lease: {ttl: 1s}, ban: {after: 3, max: 2h}, warn_at: 90%}
routes:
  - match: {host: "*.example.com", method: [post], path: /x}
    policies: [a, b]
`).Engine()
	a := headgate.Policy{
		Name: "a", Limits: headgate.MustPolicy("5/1h queue 3", "9/1d").Limits, Algorithm: headgate.LeakyBucket, OnStoreError: headgate.FailOpen,
		Holds: headgate.HoldSettings{MaxOpen: headgate.DefaultMaxOpenHolds},
	}
	b := headgate.Policy{
		Name: "b", Limits: headgate.MustPolicy("5/1h").Limits, Algorithm: headgate.TokenBucket, OnStoreError: headgate.FailClosed,
		Holds: headgate.HoldSettings{
			OnExpiry: headgate.ReleaseExpired, ExcessPolicy: headgate.ClipExcess, MaxOpen: 7, CapAmount: true,
		},
		Lease: headgate.LeaseSettings{Share: 10, TTL: time.Second},
	}
	if !reflect.DeepEqual(opts.Policies, map[string]headgate.Policy{"a": a, "b": b}) {
		t.Errorf("policies: got %+v want %+v and %+v", opts.Policies, a, b)
	}
	terms := map[string]engine.PolicyOptions{
		"a": {Shadow: 750_000, Overrides: map[string][]headgate.Limit{"k": headgate.MustPolicy("6/1h").Limits}, WarnAt: 800_000},
		"b": {Shadow: engine.All, WarnAt: 900_000, Ban: engine.Ban{After: 3, Within: time.Minute, For: time.Minute, Max: 2 * time.Hour, Forget: 24 * time.Hour}},
	}
	if !reflect.DeepEqual(opts.PolicyOptions, terms) {
		t.Errorf("terms: got %+v want %+v", opts.PolicyOptions, terms)
	}
	if opts.OnStoreError != headgate.FailOpen || opts.Enforcement != engine.Shadow || opts.MaxChecks != 7 || opts.MaxKeyBytes != 70 {
		t.Errorf("got %+v", opts)
	}
	request := &routing.Request{Method: "POST", Host: "shop.example.com", Path: "/x", ClientAddr: netip.MustParseAddr("192.0.2.1")}
	want := []routing.PolicyKey{{Policy: "a", Key: "shop.example.com"}, {Policy: "b", Key: "192.0.2.1"}}
	if got := opts.Routes.AppendPolicyKeys(nil, request); !slices.Equal(got, want) {
		t.Errorf("charges: got %+v want %+v", got, want)
	}
}

// The full file contains every setting and key.
func TestFullFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(config.FullFile)
	if err != nil {
		t.Fatal(err)
	}
	from := config.Sources{Path: config.FullFile}
	c, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range config.Settings() {
		if !strings.HasPrefix(c.Origins[s.Path], config.FullFile) {
			t.Errorf("the full file does not contain %s", s.Path)
		}
	}
	for _, part := range []reflect.Type{reflect.TypeFor[config.Policy](), reflect.TypeFor[config.Holds](), reflect.TypeFor[config.Lease](), reflect.TypeFor[config.Ban](), reflect.TypeFor[config.Route](), reflect.TypeFor[config.Token](), reflect.TypeFor[config.Match]()} {
		for i := range part.NumField() {
			if name := part.Field(i).Tag.Get("yaml"); !bytes.Contains(text, []byte(name+":")) {
				t.Errorf("the full file does not contain %s of a %s", name, part.Name())
			}
		}
	}
	if got := slices.Sorted(maps.Keys(c.Policies)); !slices.Equal(got, []string{"api", "api-address", "login", "tokens", "upload"}) || len(c.Routes) != 5 {
		t.Errorf("got policies %q and %d routes", got, len(c.Routes))
	}
	parsed, err := config.Parse(config.FullFile, text)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(parsed.File.Envoy.Config); got != filepath.Join("testdata", "ratelimit") {
		t.Errorf("envoy.config is %q, want a path relative to the file", got)
	}
	if got := string(c.Envoy.XDS.TLS.CA); got != filepath.Join("testdata", "tls", "ca.crt") {
		t.Errorf("envoy.xds.server_ca is %q, want a path relative to the file", got)
	}
	if want := "envoy.config is ignored: rules are loaded from envoy.xds.server"; len(c.Warnings) != 1 || c.Warnings[0] != want || c.Envoy.Config != "" {
		t.Errorf("warnings: %q, want that envoy.config is ignored", c.Warnings)
	}
}

// A short, typical file.
func TestShortFile(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, `store: redis://127.0.0.1:6379
policies:
  login:
    limits: ["5/15m", "20/24h"]        # all or none
    algorithm: sliding_log
    key: "ip"
    on_store_error: local              # open | closed | local
    shadow: false
  api:
    limits: ["100/1s burst 200"]
    algorithm: token_bucket
    key: "header:X-API-Key, ip"        # the first that is there
    overrides: { "key:acme": ["1000/1s burst 2000"] }
routes:
  - match: { host: "*.example.com", method: [POST], path: "/login" }
    policies: [login]
  - match: { path: "/api/**" }
    policies: [api]
envoy:
  config: ./ratelimit
trusted_proxies: ["10.0.0.0/8"]
`)
	routes := c.Engine().Routes
	request := &routing.Request{Method: "POST", Host: "shop.example.com:443", Path: "/login", ClientAddr: netip.MustParseAddr("192.0.2.1")}
	if got := routes.AppendPolicyKeys(nil, request); !slices.Equal(got, []routing.PolicyKey{{Policy: "login", Key: "192.0.2.1"}}) {
		t.Errorf("a login: got %+v", got)
	}
	request = &routing.Request{Method: "GET", Path: "/api/v1/x", Header: http.Header{"X-Api-Key": {"acme"}}}
	if got := routes.AppendPolicyKeys(nil, request); !slices.Equal(got, []routing.PolicyKey{{Policy: "api", Key: "acme"}}) {
		t.Errorf("a call with a key: got %+v", got)
	}
	if len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0], "instances") || !strings.HasPrefix(c.Warnings[1], "routes[1]: ") {
		t.Errorf("warnings: got %q want one about instances and one about the key of a route", c.Warnings)
	}
}

// A printed configuration has the same policies, routes and settings, in any folder.
func TestPrintRoundTrip(t *testing.T) {
	t.Parallel()
	odd := filepath.Join(t.TempDir(), "f.yaml")
	replace(t, odd, `resp: {user: "null"}
grpc: {tls_cert: "~", client_name: "123"}
envoy: {config: "true", near_limit: 0%}
enforcement: "off"
policies:
  "none": {limits: [5/s], enforce: 0%}
  "some": {limits: [5/s], enforce: 0.0001%, on_store_error: open}
  "all": {limits: [5/s], enforce: 100%}
  "true": {limits: [5/1000ms, 7/60s], shadow: true, overrides: {"key:": [1/s], "key:a: b #c": [2/s], "key:\"'\\": [3/s], "key:é\u2028😀": [4/s]}}
  "a # b": {limits: [100/90m queue 3], algorithm: leaky_bucket, key: "header:a+ip/48, header:b, ip"}
routes:
- {match: {path: "/*/**/*", host: "*", method: [foo]}, policies: ["none", "true", "a # b"]}
- {match: {path: /a b'"x, host: "[0::1]"}, policies: []}
- {policies: ["some"]}
`)
	mustRoundTrip(t, odd)
	mustRoundTrip(t, config.FullFile) // which has relative paths
}

func mustRoundTrip(t *testing.T, path string) {
	t.Helper()
	from, to := config.Sources{Path: path}, config.Sources{Path: filepath.Join(t.TempDir(), "printed.yaml")}
	c, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	replace(t, to.Path, b.String())
	again, err := to.Load()
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	for _, s := range config.Settings() {
		if got, want := s.Text(&again.File), s.Text(&c.File); got != want {
			t.Errorf("%s: got %q want %q", s.Path, got, want)
		}
	}
	if got, want := again.Engine(), c.Engine(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v\nfrom\n%s", got, want, b.String())
	}
}

// docs/reference/configuration.md contains the full file, and every setting with its
// names and default.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.ReadFile(config.FullFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(doc, append([]byte("```yaml\n"), full...)) {
		t.Error("docs/reference/configuration.md does not contain " + config.FullFile)
	}
	for _, s := range config.Settings() {
		row := "| `" + s.Path + "` | `--" + s.Flag + "` | `" + s.Env + "` |"
		if s.Default != "" {
			row += " `" + s.Default + "` |"
		}
		if !bytes.Contains(doc, []byte(row)) {
			t.Errorf("docs/reference/configuration.md has no row that begins with %s", row)
		}
	}
}

func TestAlgorithms(t *testing.T) {
	t.Parallel()
	for _, name := range algo.Names() {
		limit := "5/s"
		if headgate.Algorithm(name).OnlyHolds() {
			limit = "5 concurrent"
		}
		parsed, err := config.Parse("h.yaml", []byte("policies: {p: {limits: ["+limit+"], algorithm: "+name+"}}"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := parsed.File.Policies["p"].Algorithm; string(got) != name {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// A policy that names no algorithm has calendar_window for limits that only the calendar
// can mean, and prints so that the printed file has the same meaning.
func TestAlgorithmOfCalendarLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy string
		want   headgate.Algorithm
	}{
		{"{limits: [5/month]}", ""},
		{"{limits: [10/s burst 20, 5/day in Europe/Berlin]}", ""},
		{"{limits: [10/s], overrides: {a: [5/year]}}", ""},
		{"{limits: [10/s, 16 concurrent]}", ""},
		{"{limits: [16 concurrent], algorithm: concurrency}", headgate.Concurrency},
		{"{limits: [5/week, 7/day]}", headgate.TokenBucket},
		{"{limits: [5/week, 7/month], algorithm: calendar_window}", headgate.CalendarWindow},
	} {
		f, err := config.Parse("headgate.yaml", []byte("policies: {p: "+c.policy+"}"))
		if err != nil {
			t.Errorf("%s: got error %v want none", c.policy, err)
		} else if got := f.File.Policies["p"].Algorithm; got != c.want {
			t.Errorf("%s: got %q want %q", c.policy, got, c.want)
		}
	}
	_, err := config.Parse("headgate.yaml", []byte("policies: {p: {limits: [5/month], algorithm: token_bucket}}"))
	if err == nil || !strings.Contains(err.Error(), "period is month; must be a period under token_bucket; write 30d") {
		t.Errorf("5/month under token_bucket: got error %v want one that says what to write", err)
	}
}
