package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// XDS is where the rules of Envoy's rate limit service come from if they come from a control plane.
type XDS struct {
	Server          Target         `yaml:"server" restart:"yes"`
	NodeID          string         `yaml:"node_id" default:"default" restart:"yes"`
	NodeMetadata    []Label        `yaml:"node_metadata" count:"0 64" restart:"yes"`
	Headers         []Header       `yaml:"headers" count:"0 32" restart:"yes"`
	UseTLS          bool           `yaml:"tls" default:"false" restart:"yes"`
	TLS             TLS            `yaml:",inline" peer:"server"`
	MaxMessageBytes int            `yaml:"max_message_bytes" default:"4194304" range:"1 2147483647" restart:"yes"`
	ConnectRetry    time.Duration  `yaml:"connect_retry" default:"3s" range:"1ms 1h" restart:"yes"`
	BackoffInitial  time.Duration  `yaml:"backoff_initial" default:"10s" range:"1ms 1h" restart:"yes"`
	BackoffMax      time.Duration  `yaml:"backoff_max" default:"1m" range:"1ms 24h" restart:"yes"`
	BackoffRandom   engine.Percent `yaml:"backoff_random" default:"50%" restart:"yes"`
}

// Target is where a server is asked: host:port or unix:/path.
type Target string

// Label is a name and its value: zone=a.
type Label string

// Split is the name and the value.
func (l Label) Split() (name, value string) {
	name, value, _ = strings.Cut(string(l), "=")
	return name, value
}

// Header is a field of a request's header: authorization: Bearer x. Its value may be a secret, and is never printed.
type Header string

// Split is the name in lower case, and the value.
func (h Header) Split() (name, value string) {
	name, value, _ = strings.Cut(string(h), ":")
	return strings.ToLower(name), strings.TrimSpace(value)
}

// String is the field without its value, so that no log or message shows that by accident.
func (h Header) String() string {
	name, _, _ := strings.Cut(string(h), ":")
	return name + ": " + masked
}

func parseTarget(s string) (Target, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok && path != "" {
		return Target(s), nil
	}
	if _, err := parseAddress(strings.TrimPrefix(s, "dns:///")); err != nil {
		return "", fmt.Errorf("%s is no server; write host:port, such as 127.0.0.1:18000, or unix:/path", clip(s))
	}
	return Target(s), nil
}

// defaultOfIncumbent is where settings come from that envoyproxy/ratelimit has by default.
const defaultOfIncumbent = "default of envoyproxy/ratelimit"

// checkXDS refuses plain text where TLS is told of: whoever wrote that did not mean it.
func (c *Config) checkXDS() *Error {
	x := &c.Envoy.XDS
	files := map[string]Path{"envoy.xds.tls_cert": x.TLS.Cert, "envoy.xds.tls_key": x.TLS.Key, "envoy.xds.server_ca": x.TLS.CA}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if x.Server != "" && !x.UseTLS && files[path] != "" {
			return c.wrong(path, "it has no meaning while envoy.xds.tls is false: the control plane would be asked in plain text; write tls: true")
		}
	}
	return nil
}

// chooseRules leaves one source of rules for Envoy, and says what of it is hardly meant.
func (c *Config) chooseRules() {
	x := &c.Envoy.XDS
	if x.Server == "" {
		return
	}
	if c.Envoy.Config != "" && c.Origins["envoy.config"] != defaultOfIncumbent {
		c.Warnings = append(c.Warnings, "envoy.config is not read: the rules come from envoy.xds.server")
	}
	c.Envoy.Config = ""
	for _, h := range x.Headers {
		if _, value := h.Split(); value == masked {
			c.Warnings = append(c.Warnings, "envoy.xds.headers holds "+masked+", which config print writes in the place of a secret: put the secret there")
		}
	}
}

// source is where rules come from: files, or a control plane.
func (r *incumbent) source() {
	switch kind := r.text("CONFIG_TYPE", "FILE"); kind {
	case "FILE":
		r.files()
	case "GRPC_XDS_SOTW":
		r.xds()
	default:
		r.fail("CONFIG_TYPE", "%s is not FILE or GRPC_XDS_SOTW", clip(kind))
	}
}

func (r *incumbent) xds() {
	server := "CONFIG_GRPC_XDS_SERVER_URL"
	r.set("envoy.xds.server", "CONFIG_TYPE, "+server, r.text(server, "localhost:18000"), "CONFIG_TYPE")
	names := map[string]string{
		"envoy.xds.node_id": "CONFIG_GRPC_XDS_NODE_ID", "envoy.xds.headers": "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
		"envoy.xds.connect_retry":   "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
		"envoy.xds.backoff_initial": "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "envoy.xds.backoff_max": "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
	}
	if size := "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"; r.text(size, "0") != "0" {
		names["envoy.xds.max_message_bytes"] = size
	}
	tls := "CONFIG_GRPC_XDS_SERVER_USE_TLS"
	if r.yes(tls, false) {
		r.set("envoy.xds.tls", tls, "true", tls)
		names["envoy.xds.tls_cert"], names["envoy.xds.tls_key"] = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY"
		names["envoy.xds.server_ca"], names["envoy.xds.server_name"] = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "CONFIG_GRPC_XDS_SERVER_TLS_SAN"
	}
	r.repeat(names)
	r.ratio("envoy.xds.backoff_random", "XDS_CLIENT_BACKOFF_RANDOM_FACTOR")
	if jitter := "XDS_CLIENT_BACKOFF_JITTER"; !r.yes(jitter, true) {
		r.set("envoy.xds.backoff_random", jitter, "0%", jitter)
	}
	r.nodeMetadata()
}

// nodeMetadata are the entries that name a value; others say nothing.
func (r *incumbent) nodeMetadata() {
	name := "CONFIG_GRPC_XDS_NODE_METADATA"
	var kept []string
	for one := range strings.SplitSeq(r.text(name, ""), ",") {
		if name, _, ok := strings.Cut(one, "="); ok && strings.TrimSpace(name) != "" {
			kept = append(kept, one)
		}
	}
	if len(kept) > 0 {
		r.set("envoy.xds.node_metadata", name, strings.Join(kept, ","), name)
	}
}

// repeat gives settings the values of variables that are there, as they are.
func (r *incumbent) repeat(names map[string]string) {
	for path, name := range names {
		if value, ok := r.lookup(name); ok {
			r.set(path, name, value, name)
		}
	}
}

// ratio gives a setting the value of a variable that is a number from 0 to 1.
func (r *incumbent) ratio(path, name string) {
	text, ok := r.lookup(name)
	if !ok {
		return
	}
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		r.fail(name, "%s is no number from 0 to 1", clip(text))
		return
	}
	r.set(path, name, strconv.FormatFloat(100*ratio, 'f', 4, 64)+"%", name)
}

// mapper warns of a mapping of metrics' names that is there. Envoy Gateway names one that mostly is not.
func (r *incumbent) mapper() []string {
	name := "PROMETHEUS_MAPPER_YAML"
	if _, err := os.Stat(r.text(name, "")); err != nil {
		return nil
	}
	return []string{name + " has no effect: metrics have the names that envoyproxy/ratelimit gives them by default"}
}
