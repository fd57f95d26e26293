// Package config reads the service's one configuration file, and what flags and the environment say beside it.
//
// The Go types in this package are the format: from them come the reader, the JSON Schema for editors, and the name of each setting as a
// flag, a variable and a line of the file. What is wrong is said with file, line and column, all of it at once. A file that is wrong
// anywhere is no configuration at all.
package config

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
)

// File is everything that can be configured. Each field that is no list of policies or routes is a setting: its name as a flag is that
// in the file with - in place of . and _, its variable HEADGATE_ and the same in capitals. The tags say what is accepted: see leaf.
type File struct {
	HTTP            HTTP                  `yaml:"http" help:"The door for HTTP."`
	RESP            RESP                  `yaml:"resp" help:"The door for Redis clients."`
	GRPC            GRPC                  `yaml:"grpc" help:"The door for Envoy."`
	Admin           Admin                 `yaml:"admin" help:"The door for who runs the service."`
	Metrics         Metrics               `yaml:"metrics" help:"A door with nothing but metrics."`
	Log             Log                   `yaml:"log" help:"What is logged, and how."`
	Store           StoreURL              `yaml:"store" default:"memory://" restart:"yes" help:"where state is kept: memory://, redis://host:6379, rediss://…, redis+sentinel://host:26379/NAME, redis+cluster://…, redis+unix:///path, memcached://host:11211; REDIS_HOST and REDIS_PORT choose Redis, too"`
	OnStoreError    headgate.OnStoreError `yaml:"on_store_error" default:"closed" oneof:"closed open local" help:"what holds while the store is away, for checks without a policy and policies that do not say: closed (503), open (admitted) or local (a share of the limit, see instances)"`
	Instances       int                   `yaml:"instances" default:"0" range:"0 100000" restart:"yes" help:"how many instances share the store; each admits one share of so many while local holds; 0: not known, taken for 1"`
	StoreBudget     time.Duration         `yaml:"store_budget" default:"50ms" range:"1ms 1m" restart:"yes" help:"longest time to wait for the store, in one decision"`
	Enforcement     engine.Enforcement    `yaml:"enforcement" default:"on" oneof:"on shadow off" help:"on; shadow: everything counts and nobody is denied; off: everybody is admitted and nothing is charged, for when limits do harm"`
	TrustedProxies  []Network             `yaml:"trusted_proxies" count:"0 1024" help:"networks of proxies that are believed who the client is"`
	MaxKeyBytes     int                   `yaml:"max_key_bytes" default:"1024" range:"1 65536" help:"longest key"`
	MaxChecks       int                   `yaml:"max_checks" default:"32" range:"1 1024" help:"most checks in one request"`
	MaxBodyBytes    int                   `yaml:"max_body_bytes" default:"65536" range:"1 16777216" restart:"yes" help:"longest body of a request"`
	MaxHeaderBytes  int                   `yaml:"max_header_bytes" default:"16384" range:"1 1048576" restart:"yes" help:"longest header of a request, to some 4096 bytes"`
	HeaderTimeout   time.Duration         `yaml:"header_timeout" default:"5s" range:"1ms 24h" restart:"yes" help:"longest time to read a request's header"`
	ReadTimeout     time.Duration         `yaml:"read_timeout" default:"10s" range:"1ms 24h" restart:"yes" help:"longest time to read a whole request"`
	WriteTimeout    time.Duration         `yaml:"write_timeout" default:"10s" range:"1ms 24h" restart:"yes" help:"longest time to answer a request"`
	IdleTimeout     time.Duration         `yaml:"idle_timeout" default:"2m" range:"1ms 24h" restart:"yes" help:"longest time between two requests on a connection"`
	DrainDelay      time.Duration         `yaml:"drain_delay" default:"0s" range:"0s 24h" restart:"yes" help:"how long to go on answering, and say draining, once told to stop"`
	ShutdownTimeout time.Duration         `yaml:"shutdown_timeout" default:"10s" range:"1ms 24h" restart:"yes" help:"how long requests in flight may take after that"`
	Envoy           Envoy                 `yaml:"envoy" help:"Envoy's rate limit service."`
	Policies        map[string]Policy     `yaml:"policies" named:"policy" help:"What is limited how, by the name that checks and routes call it by."`
	Routes          []Route               `yaml:"routes" count:"0 1000" help:"Which policies a request is under, for doors that see HTTP: the first route that matches. None: it is let pass."`
}

// HTTP are the settings of the door for HTTP that other doors have, too.
type HTTP struct {
	Addr           Address `yaml:"addr" default:"127.0.0.1:8080" restart:"yes" help:"where to listen for HTTP: host:port; port 0 takes a free one; off closes this door"`
	TLS            TLS     `yaml:",inline" peer:"client"`
	MaxConnections int     `yaml:"max_connections" default:"10000" range:"1 1000000" restart:"yes" help:"most connections at a time; beyond, one that has sent no request for a second from its beginning, or waits for its next, makes room for a new one"`
}

// RESP are the settings of the door for Redis clients.
type RESP struct {
	Addr            Endpoint      `yaml:"addr" default:"127.0.0.1:6380" restart:"yes" help:"where to listen for Redis clients: host:port; unix:/path for a socket that its owner alone may use; off closes this door"`
	User            string        `yaml:"user" default:"default" restart:"yes" help:"whose the password is"`
	Password        Secret        `yaml:"password" restart:"yes" help:"what Redis clients must know; if it is not here, everybody who reaches the door may ask"`
	EventLoops      bool          `yaml:"event_loops" default:"true" restart:"yes"`
	MaxClients      int           `yaml:"max_clients" default:"10000" range:"1 1000000" restart:"yes" help:"most Redis clients at a time"`
	MaxRequestBytes int           `yaml:"max_request_bytes" default:"16384" range:"1 1048576" restart:"yes" help:"longest request of a Redis client; at least 1024 more than max_key_bytes"`
	TLS             TLS           `yaml:",inline" peer:"client"`
	RequestTimeout  time.Duration `yaml:"request_timeout" default:"10s" range:"1ms 24h" restart:"yes" help:"longest time to read a Redis client's request"`
	WriteTimeout    time.Duration `yaml:"write_timeout" default:"10s" range:"1ms 24h" restart:"yes" help:"longest time for a Redis client to take its replies"`
	IdleTimeout     time.Duration `yaml:"idle_timeout" default:"10m" range:"1ms 24h" restart:"yes" help:"longest time between two requests of a Redis client"`
}

// GRPC are the settings of the door for Envoy.
type GRPC struct {
	Addr                  Endpoint      `yaml:"addr" default:"127.0.0.1:8081" restart:"yes" help:"where to listen for Envoy: host:port; unix:/path for a socket that its owner alone may use; off closes this door"`
	TLS                   TLS           `yaml:",inline" peer:"client"`
	MaxConnections        int           `yaml:"max_connections" default:"4096" range:"1 1000000" restart:"yes" help:"most connections at a time"`
	MaxStreams            int           `yaml:"max_streams" default:"1024" range:"1 1000000" restart:"yes" help:"most requests at a time on one connection"`
	MaxMessageBytes       int           `yaml:"max_message_bytes" default:"65536" range:"1 16777216" restart:"yes" help:"longest request"`
	MaxConnectionAge      time.Duration `yaml:"max_connection_age" default:"24h" range:"1ms 8760h" restart:"yes" help:"after which a client is asked for another connection"`
	MaxConnectionAgeGrace time.Duration `yaml:"max_connection_age_grace" default:"1h" range:"1ms 8760h" restart:"yes" help:"how long requests in flight may take after that"`
}

// Envoy is what Envoy's rate limit service is told.
type Envoy struct {
	Config          Folder       `yaml:"config" restart:"yes" help:"a folder of envoyproxy/ratelimit's files, from where the configuration file is; it is watched"`
	MergeDomains    bool         `yaml:"merge_domains" default:"false" restart:"yes" help:"several files may hold descriptors of one domain"`
	DotFiles        bool         `yaml:"dot_files" default:"false" restart:"yes" help:"files whose names begin with a point are read, too"`
	MaxEntries      int          `yaml:"max_entries" default:"16" range:"1 128" restart:"yes" help:"most entries of a descriptor"`
	StartAnyway     bool         `yaml:"start_anyway" default:"false" restart:"yes" help:"start even if the folder cannot be read, or a file in it is wrong, or the control plane has sent nothing that is fine, and answer that there is no configuration until then"`
	NeedDomains     bool         `yaml:"need_domains" default:"false" restart:"yes" help:"/healthcheck and the health check of gRPC fail until there is a domain"`
	Charge          Charge       `yaml:"charge" default:"all_or_none" oneof:"all_or_none each" restart:"yes" help:"all_or_none: the descriptors of a request are charged all, or none if one is over; each: each by itself, and hits that are denied count, as envoyproxy/ratelimit does it"`
	Shadow          bool         `yaml:"shadow" default:"false" restart:"yes" help:"every answer is OK; its statuses say what it would have been"`
	Quota           bool         `yaml:"quota" default:"false" restart:"yes" help:"all descriptors are in quota mode: they deny only together"`
	Metadata        bool         `yaml:"metadata" default:"false" restart:"yes" help:"answers carry dynamic metadata"`
	Headers         bool         `yaml:"headers" default:"false" restart:"yes" help:"answers carry header fields for the client"`
	HeaderLimit     string       `yaml:"header_limit" default:"RateLimit-Limit" restart:"yes" help:"the name of the field with the limit"`
	HeaderRemaining string       `yaml:"header_remaining" default:"RateLimit-Remaining" restart:"yes" help:"the name of the field with what is left"`
	HeaderReset     string       `yaml:"header_reset" default:"RateLimit-Reset" restart:"yes" help:"the name of the field with the seconds until all is left"`
	NearLimit       engine.Share `yaml:"near_limit" default:"80%" restart:"yes" help:"from which part of a limit on hits are counted as near it"`
	JSON503         bool         `yaml:"json_503" default:"false" restart:"yes" help:"/json answers 503 while the store is away, and not 400 as envoyproxy/ratelimit does"`
	ResponseMS      bool         `yaml:"response_ms" default:"false" restart:"yes" help:"response times in metrics are milliseconds, as envoyproxy/ratelimit had them once, and not seconds as their name says"`
	XDS             XDS          `yaml:"xds" help:"A control plane that says the rules, in the place of a folder."`
}

// Policy is one or more limits, all or none.
type Policy struct {
	Limits       []headgate.Limit            `yaml:"limits" required:"yes" count:"1 32" help:"The limits, all or none: 10/s, 5/15m burst 20, 100/1m queue 50."`
	Algorithm    headgate.Algorithm          `yaml:"algorithm" default:"token_bucket" oneof:"token_bucket gcra token_bucket_interval fixed_window sliding_log sliding_window leaky_bucket" help:"The arithmetic."`
	Key          routing.Key                 `yaml:"key" default:"ip" help:"Whose budget a request spends, for doors that see HTTP: ip, header:NAME, method, host, path; the first of several between commas that the request has; parts joined by +."`
	OnStoreError headgate.OnStoreError       `yaml:"on_store_error" oneof:"closed open local" help:"What holds while the store is away; if it is not here, what the file says for all."`
	Shadow       bool                        `yaml:"shadow" default:"false" help:"Only watch: count, tell what would be answered, deny nobody."`
	Enforce      engine.Share                `yaml:"enforce" default:"100%" help:"The share of keys that are denied; for the others the policy only watches. The same keys each time."`
	Overrides    map[string][]headgate.Limit `yaml:"overrides" named:"key" keys:"^key:" count:"1 32" help:"Limits for single keys, in place of the policy's: key:acme."`
}

// Route is which requests are under which policies.
type Route struct {
	Match    Match    `yaml:"match" help:"Which requests: all parts must match. A part that is missing matches everything."`
	Policies []string `yaml:"policies" required:"yes" count:"0 32" help:"Their policies, all or none. None at all: the request is let pass."`
}

// Match is a part of all requests.
type Match struct {
	Host   routing.Host `yaml:"host" help:"The host: a name, or *.example.com for every name below. Case and port do not matter."`
	Method []Method     `yaml:"method" count:"1 32" help:"The methods."`
	Path   routing.Path `yaml:"path" help:"The path: * is one segment, ** any number of them. Case does not matter."`
}

// TLS are the files of one end of TLS, in the keys of the struct that embeds it inline: PEER is the
// peer tag of that field, client for a listener and server for a client.
type TLS struct {
	Cert     Path   `yaml:"tls_cert" restart:"yes"`
	Key      Path   `yaml:"tls_key" restart:"yes"`
	CA       Path   `yaml:"PEER_ca" restart:"yes"`
	PeerName string `yaml:"PEER_name" restart:"yes"`
}

// Files returns the files for package tlsfiles.
func (t *TLS) Files() tlsfiles.Files {
	return tlsfiles.Files{Cert: string(t.Cert), Key: string(t.Key), CA: string(t.CA), PeerName: t.PeerName}
}
