// Package config reads the configuration of the service from a file, flags and
// environment variables.
//
// The Go types in this package define the format. The decoder, the JSON Schema for
// editors, the flags and the variables are derived from these types. Errors have file,
// line and column, and all errors are reported together. A file with an error is
// rejected as a whole.
package config

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
)

// File is a configuration file. Every field except Policies and Routes is a setting.
// The name of a setting's flag is the path of the setting in the file, with "-" instead
// of "." and "_". The name of its environment variable is HEADGATE_ and the name of the
// flag in upper case, with "_" instead of "-".
//
// The struct tags default, range, oneof, count (the number of list entries) and required
// define which values are accepted; see leaf. The tag alias is a second name of a key.
// The tag prefix has the prefixes of the keys of a mapping, of which the first may be
// omitted. The tag suggestion has the format of the value that a bare number most likely
// means. The tag words has the words that may be written in place of a mapping; see
// [switched]. The help texts are in the variable helps.
type File struct {
	HTTP            HTTP                  `yaml:"http"`
	RESP            RESP                  `yaml:"resp"`
	GRPC            GRPC                  `yaml:"grpc"`
	Admin           Admin                 `yaml:"admin"`
	Metrics         Metrics               `yaml:"metrics"`
	Log             Log                   `yaml:"log"`
	Events          Events                `yaml:"events"`
	OTLP            OTLP                  `yaml:"otlp"`
	Statsd          Statsd                `yaml:"statsd"`
	Store           StoreURL              `yaml:"store" default:"memory://" restart:"yes"`
	OnStoreError    headgate.OnStoreError `yaml:"on_store_error" default:"closed" oneof:"closed open local"`
	Instances       int                   `yaml:"instances" default:"0" range:"0 100000" restart:"yes"`
	StoreBudget     time.Duration         `yaml:"store_budget" default:"50ms" range:"1ms 1m" restart:"yes"`
	OverridesPoll   time.Duration         `yaml:"overrides_poll" default:"500ms" range:"10ms 1m" restart:"yes"`
	Enforcement     engine.Enforcement    `yaml:"enforcement" default:"on" oneof:"on shadow off"`
	TrustedProxies  []Network             `yaml:"trusted_proxies" count:"0 1024"`
	TrustedHeaders  []HeaderName          `yaml:"trusted_headers" count:"0 64"`
	MaxKeyBytes     int                   `yaml:"max_key_bytes" default:"1024" range:"1 65536"`
	MaxChecks       int                   `yaml:"max_checks" default:"32" range:"1 1024"`
	MaxExtendChecks int                   `yaml:"max_extend_checks" default:"1024" range:"1 65536"`
	MaxBodyBytes    int                   `yaml:"max_body_bytes" default:"65536" range:"1 16777216" restart:"yes"`
	MaxHeaderBytes  int                   `yaml:"max_header_bytes" default:"16384" range:"1 1048576" restart:"yes"`
	HeaderTimeout   time.Duration         `yaml:"header_timeout" default:"5s" range:"1ms 24h" restart:"yes"`
	ReadTimeout     time.Duration         `yaml:"read_timeout" default:"10s" range:"1ms 24h" restart:"yes"`
	WriteTimeout    time.Duration         `yaml:"write_timeout" default:"10s" range:"1ms 24h" restart:"yes"`
	IdleTimeout     time.Duration         `yaml:"idle_timeout" default:"2m" range:"1ms 24h" restart:"yes"`
	DrainDelay      time.Duration         `yaml:"drain_delay" default:"0s" range:"0s 24h" restart:"yes"`
	ShutdownTimeout time.Duration         `yaml:"shutdown_timeout" default:"10s" range:"1ms 24h" restart:"yes"`
	Envoy           Envoy                 `yaml:"envoy"`
	Policies        map[string]Policy     `yaml:"policies" named:"policy"`
	Routes          []Route               `yaml:"routes" count:"0 1000"`
}

// HTTP has the settings of the HTTP API listener.
type HTTP struct {
	Addr           Address     `yaml:"addr" default:"127.0.0.1:8080" restart:"yes"`
	AllowedHosts   []HostName  `yaml:"allowed_hosts" count:"0 64" restart:"yes"`
	TLS            TLS         `yaml:",inline" peer:"client"`
	Token          Secret      `yaml:"token"`
	Tokens         []HTTPToken `yaml:"tokens" count:"0 100"`
	Insecure       bool        `yaml:"insecure" default:"false"`
	MaxConnections int         `yaml:"max_connections" default:"10000" range:"1 1000000" restart:"yes"`
	MaxMemoryBytes int         `yaml:"max_memory_bytes" default:"201326592" range:"1 1099511627776" restart:"yes"`
}

// HostNames returns the names in AllowedHosts.
func (h *HTTP) HostNames() []string {
	var names []string
	for _, name := range h.AllowedHosts {
		names = append(names, string(name))
	}
	return names
}

// RESP has the settings of the Redis-compatible endpoint.
type RESP struct {
	Addr            Endpoint      `yaml:"addr" default:"127.0.0.1:6380" restart:"yes"`
	User            string        `yaml:"user" default:"default" restart:"yes"`
	Password        Secret        `yaml:"password" restart:"yes"`
	Users           []HTTPToken   `yaml:"users" count:"0 100"`
	Insecure        bool          `yaml:"insecure" default:"false"`
	EventLoops      bool          `yaml:"event_loops" default:"true" restart:"yes"`
	MaxClients      int           `yaml:"max_clients" default:"10000" range:"1 1000000" restart:"yes"`
	MaxRequestBytes int           `yaml:"max_request_bytes" default:"16384" range:"1 1048576" restart:"yes"`
	MaxMemoryBytes  int           `yaml:"max_memory_bytes" default:"201326592" range:"1 1099511627776" restart:"yes"`
	TLS             TLS           `yaml:",inline" peer:"client"`
	RequestTimeout  time.Duration `yaml:"request_timeout" default:"10s" range:"1ms 24h" restart:"yes"`
	WriteTimeout    time.Duration `yaml:"write_timeout" default:"10s" range:"1ms 24h" restart:"yes"`
	IdleTimeout     time.Duration `yaml:"idle_timeout" default:"10m" range:"1ms 24h" restart:"yes"`
}

// GRPC has the settings of the gRPC listener for Envoy.
type GRPC struct {
	Addr                  Endpoint      `yaml:"addr" default:"127.0.0.1:8081" restart:"yes"`
	TLS                   TLS           `yaml:",inline" peer:"client"`
	MaxConnections        int           `yaml:"max_connections" default:"4096" range:"1 1000000" restart:"yes"`
	MaxStreams            int           `yaml:"max_streams" default:"1024" range:"1 1000000" restart:"yes"`
	MaxMessageBytes       int           `yaml:"max_message_bytes" default:"4194304" range:"1 67108864" restart:"yes"`
	MaxMemoryBytes        int           `yaml:"max_memory_bytes" default:"201326592" range:"1 1099511627776" restart:"yes"`
	MaxConnectionAge      time.Duration `yaml:"max_connection_age" default:"24h" range:"1ms 8760h" restart:"yes"`
	MaxConnectionAgeGrace time.Duration `yaml:"max_connection_age_grace" default:"1h" range:"1ms 8760h" restart:"yes"`
}

// Envoy has the settings of Envoy's rate limit service.
type Envoy struct {
	Config          Folder         `yaml:"config" restart:"yes"`
	MergeDomains    bool           `yaml:"merge_domains" default:"false" restart:"yes"`
	DotFiles        bool           `yaml:"dot_files" default:"false" restart:"yes"`
	AllFiles        bool           `yaml:"all_files" default:"false" restart:"yes"`
	StartAnyway     bool           `yaml:"start_anyway" default:"false" restart:"yes"`
	NeedDomains     bool           `yaml:"need_domains" default:"false" restart:"yes"`
	CalendarMonths  bool           `yaml:"calendar_months" default:"false" restart:"yes"`
	Charge          ChargeMode     `yaml:"charge" default:"all_or_none" oneof:"all_or_none each" restart:"yes"`
	LocalDenials    bool           `yaml:"local_denials" default:"false" restart:"yes"`
	Shadow          bool           `yaml:"shadow" default:"false" restart:"yes"`
	Quota           bool           `yaml:"quota" default:"false" restart:"yes"`
	Metadata        bool           `yaml:"metadata" default:"false" restart:"yes"`
	Headers         bool           `yaml:"headers" default:"false" restart:"yes"`
	HeaderLimit     string         `yaml:"header_limit" default:"RateLimit-Limit" restart:"yes"`
	HeaderRemaining string         `yaml:"header_remaining" default:"RateLimit-Remaining" restart:"yes"`
	HeaderReset     string         `yaml:"header_reset" default:"RateLimit-Reset" restart:"yes"`
	NearLimit       engine.Percent `yaml:"near_limit" default:"80%" restart:"yes"`
	JSON503         bool           `yaml:"json_503" default:"false" restart:"yes"`
	ResponseMS      bool           `yaml:"response_ms" default:"false" restart:"yes"`
	XDS             XDS            `yaml:"xds"`
}

// Policy has one or more limits; a request is charged to all of them or to none. The
// keys of Overrides begin with "key:", "pattern:" or "network:"; in the file, the prefix
// "key:" may be omitted.
type Policy struct {
	Limits       []headgate.Limit            `yaml:"limits" alias:"limit" required:"yes" count:"1 32"`
	Algorithm    headgate.Algorithm          `yaml:"algorithm" default:"token_bucket" oneof:"algorithms"`
	Key          routing.Key                 `yaml:"key" default:"ip"`
	OnStoreError headgate.OnStoreError       `yaml:"on_store_error" oneof:"closed open local"`
	Shadow       bool                        `yaml:"shadow" default:"false"`
	Enforce      engine.Percent              `yaml:"enforce" default:"100%"`
	Holds        Holds                       `yaml:"holds"`
	Lease        Lease                       `yaml:"lease" words:"auto off"`
	Ban          Ban                         `yaml:"ban"`
	WarnAt       engine.Percent              `yaml:"warn_at" default:"80%"`
	Overrides    map[string][]headgate.Limit `yaml:"overrides" named:"key" prefix:"key: pattern: network:" count:"1 32"`
}

// Holds are the settings of a policy for holds; see [headgate.HoldSettings].
type Holds struct {
	OnExpiry  string `yaml:"on_expiry" oneof:"keep release"`
	Over      string `yaml:"over" default:"owe" oneof:"owe clip"`
	MaxOpen   int    `yaml:"max_open" default:"1000" range:"1 100000"`
	CapAmount bool   `yaml:"cap_amount" default:"false"`
}

// Ban are the settings of a policy for bans; see [engine.Ban]. After is 0 if there are
// none.
type Ban struct {
	After  int           `yaml:"after" required:"yes" range:"1 10000"`
	Within time.Duration `yaml:"within" default:"1m" range:"1s 24h"`
	For    time.Duration `yaml:"for" default:"1m" range:"1s 2160h"`
	Max    time.Duration `yaml:"max" default:"1h" range:"1s 2160h"`
	Forget time.Duration `yaml:"forget" default:"24h" range:"1s 8784h"`
}

// Lease are the settings of a policy for leases; see [headgate.LeaseSettings].
type Lease struct {
	On    bool              // whether the policy is leased: the file has a mapping, or the word auto
	Share engine.LeaseShare `yaml:"share" default:"10%"`
	TTL   time.Duration     `yaml:"ttl" default:"250ms" range:"10ms 1m" suggestion:"%sms"`
}

// use sets whether the policy is leased; see [switched].
func (l *Lease) use(word string) { l.On = word != "off" }

// Route assigns policies to the requests that Match selects.
type Route struct {
	Match    Match    `yaml:"match"`
	Policies []string `yaml:"policies" required:"yes" count:"0 32"`
	// Hold is the TTL of the hold that the forward-auth API opens for a request. If it is
	// 0, the request is charged without a hold.
	Hold time.Duration `yaml:"hold" range:"1ms 168h"`
}

// Match selects requests. An empty field matches every request.
type Match struct {
	Host   routing.Host `yaml:"host"`
	Method []Method     `yaml:"method" count:"1 32"`
	Path   routing.Path `yaml:"path"`
	// Header has patterns for the values of header fields, by name. All must match.
	Header map[string]routing.Pattern `yaml:"header" alias:"headers" named:"header field"`
}

// TLS has the TLS files of a listener or of a client. It is inlined in other structs.
// PEER in its keys is replaced by the value of the tag peer of the inlined field:
// "client" in a listener, "server" in a client.
type TLS struct {
	Cert     Path   `yaml:"tls_cert" restart:"yes"`
	Key      Path   `yaml:"tls_key" restart:"yes"`
	CA       Path   `yaml:"PEER_ca" restart:"yes"`
	PeerName string `yaml:"PEER_name" restart:"yes"`
}

// Files returns the settings in the form that package tlsfiles defines.
func (t *TLS) Files() tlsfiles.Files {
	return tlsfiles.Files{Cert: string(t.Cert), Key: string(t.Key), CA: string(t.CA), PeerName: t.PeerName}
}
