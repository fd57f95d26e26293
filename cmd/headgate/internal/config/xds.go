package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// XDS has the settings of the xDS control plane that provides the rules of Envoy's rate
// limit service.
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

// Target is the address of a server: host:port or unix:/path.
type Target string

// Label is a name with a value, written as zone=a.
type Label string

// Split returns the name and the value.
func (l Label) Split() (name, value string) {
	name, value, _ = strings.Cut(string(l), "=")
	return name, value
}

// Header is a header field, written as “authorization: Bearer x”. Its value may be a
// secret and is never printed.
type Header string

// Split returns the field's name in lower case and its value.
func (h Header) Split() (name, value string) {
	name, value, _ = strings.Cut(string(h), ":")
	return strings.ToLower(name), strings.TrimSpace(value)
}

// String returns the field with a masked value, so that no log or message contains the
// value.
func (h Header) String() string {
	name, _, _ := strings.Cut(string(h), ":")
	return name + ": " + masked
}

func parseTarget(s string) (Target, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok && path != "" {
		return Target(s), nil
	}
	if _, err := parseAddress(strings.TrimPrefix(s, "dns:///")); err != nil {
		return "", fmt.Errorf("%s is not a server address; must be host:port, such as "+
			"127.0.0.1:18000, or unix:/path", clip(s))
	}
	return Target(s), nil
}

// checkXDS returns an error if TLS files are set for a control plane but TLS is not
// enabled, which is most likely a mistake.
func (c *Config) checkXDS() *Error {
	x := &c.Envoy.XDS
	files := map[string]Path{
		"envoy.xds.tls_cert": x.TLS.Cert, "envoy.xds.tls_key": x.TLS.Key, "envoy.xds.server_ca": x.TLS.CA,
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if x.Server != "" && !x.UseTLS && files[path] != "" {
			return c.wrong(path, "has no effect while envoy.xds.tls is false (plain text); "+
				"set envoy.xds.tls: true or remove it")
		}
	}
	return nil
}

// chooseRules removes the folder of Envoy rules if a control plane is set, so that
// there is only one source of rules.
func (c *Config) chooseRules() {
	x := &c.Envoy.XDS
	if x.Server == "" {
		return
	}
	if c.Envoy.Config != "" && c.Origins["envoy.config"] != ratelimitDefault {
		c.Warnings = append(c.Warnings,
			"envoy.config is ignored: rules are loaded from envoy.xds.server")
	}
	c.Envoy.Config = ""
	for _, h := range x.Headers {
		if _, value := h.Split(); value == masked {
			c.Warnings = append(c.Warnings, maskedWarning("envoy.xds.headers"))
		}
	}
}
