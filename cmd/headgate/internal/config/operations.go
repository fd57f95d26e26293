package config

import (
	"net"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/events"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

// Admin has the settings of the admin listener.
type Admin struct {
	Addr   Address      `yaml:"addr" default:"127.0.0.1:6070" restart:"yes"`
	Token  Secret       `yaml:"token"`
	Tokens []AdminToken `yaml:"tokens" count:"0 100"`
	Keys   bool         `yaml:"keys" default:"false" restart:"yes"`
}

// Metrics has the settings of the metrics listener, which serves only metrics.
type Metrics struct {
	Addr Address `yaml:"addr" default:"off" restart:"yes"`
}

// Log has the settings of the log.
type Log struct {
	Format     string `yaml:"format" default:"text" oneof:"text json" restart:"yes"`
	Level      string `yaml:"level" default:"info" oneof:"debug info warn error" restart:"yes"`
	Denials    int    `yaml:"denials" default:"10" range:"0 100000" restart:"yes"`
	Keys       bool   `yaml:"keys" default:"false" restart:"yes"`
	HashSecret Secret `yaml:"hash_secret" restart:"yes"`
}

// Events has the settings of events; see package events.
type Events struct {
	Log       bool          `yaml:"log" default:"false" restart:"yes"`
	Webhook   Secret        `yaml:"webhook" restart:"yes"`
	Secret    Secret        `yaml:"webhook_secret" restart:"yes"`
	OldSecret Secret        `yaml:"webhook_old_secret" restart:"yes"`
	Timeout   time.Duration `yaml:"webhook_timeout" default:"5s" range:"1ms 1m" restart:"yes"`
	Attempts  int           `yaml:"webhook_attempts" default:"10" range:"1 100" restart:"yes"`
	Keys      string        `yaml:"keys" default:"hash" oneof:"hash plain none" restart:"yes"`
	Interval  time.Duration `yaml:"interval" default:"1m" range:"1ms 24h" restart:"yes"`
	Queue     int           `yaml:"queue" default:"1000" range:"1 100000" restart:"yes"`
}

// Secrets returns the secrets that sign webhooks.
func (e *Events) Secrets() []string {
	all := []string{string(e.Secret)}
	if e.OldSecret != "" {
		all = append(all, string(e.OldSecret))
	}
	return all
}

// checkEvents returns an error if webhooks cannot be sent or signed.
func (c *Config) checkEvents() *Error {
	e := &c.Events
	if e.Webhook == "" {
		return nil
	}
	if err := events.CheckURL(string(e.Webhook)); e.Webhook != masked && err != nil {
		return c.wrong("events.webhook", err.Error())
	}
	if e.Secret == "" {
		return c.wrong("events.webhook", "webhooks require a secret that signs them: set events.webhook_secret "+
			"(HEADGATE_EVENTS_WEBHOOK_SECRET) to the output of: echo whsec_$(openssl rand -base64 32)")
	}
	if err := checkSecret(e.Secret); err != nil {
		return c.wrong("events.webhook_secret", err.Error())
	}
	if err := checkSecret(e.OldSecret); err != nil {
		return c.wrong("events.webhook_old_secret", err.Error())
	}
	return nil
}

// checkSecret returns an error if a secret cannot sign webhooks. It accepts the printed
// form of a secret, about which there is a warning.
func checkSecret(s Secret) error {
	if s == "" || s == masked {
		return nil
	}
	_, err := events.ParseSecret(string(s))
	return err
}

// warnOfEvents adds warnings about settings of events.
func (c *Config) warnOfEvents() {
	e := &c.Events
	if e.Webhook == "" && (e.Secret != "" || e.OldSecret != "") {
		c.Warnings = append(c.Warnings, "events.webhook_secret has no effect without events.webhook")
	}
	if e.Webhook != "" && e.Keys == "hash" && c.Log.HashSecret == "" && !c.inMemory() {
		c.Warnings = append(c.Warnings, "events.keys: hash without log.hash_secret: each instance has another hash of the same key; "+
			"set log.hash_secret to the same value at all instances")
	}
}

// checkAdmin returns an error if the admin listener has a non-loopback address but no
// token.
func (c *Config) checkAdmin() *Error {
	addr := string(c.Admin.Addr)
	if c.Admin.Addr == Off || addr == "" || c.Admin.Token != "" || len(c.Admin.Tokens) > 0 || localaccess.Address(addr) {
		return nil
	}
	_, port, _ := net.SplitHostPort(addr)
	return c.wrong("admin.addr", addr+" is not a loopback address and requires a token: "+
		"set admin.token (--admin-token or HEADGATE_ADMIN_TOKEN), listen on 127.0.0.1:"+port+
		", or set --metrics-addr if metrics alone are needed")
}

// warnOfOpenListeners adds a warning for each listener that other machines can reach
// without credentials and whose API can refund and reset keys.
func (c *Config) warnOfOpenListeners() {
	http, resp := &c.HTTP, &c.RESP
	authenticated := http.Insecure || http.Token != "" || len(http.Tokens) > 0 || http.TLS.CA != ""
	c.warnOfOpenListener("http", string(http.Addr), authenticated, "http.tokens or http.client_ca")
	authenticated = resp.Insecure || resp.Password != "" || len(resp.Users) > 0 || resp.TLS.CA != ""
	c.warnOfOpenListener("resp", string(resp.Addr), authenticated, "resp.password, resp.users or resp.client_ca")
}

func (c *Config) warnOfOpenListener(section, addr string, authenticated bool, remedy string) {
	if addr == string(Off) || addr == "" || authenticated || localaccess.Address(addr) {
		return
	}
	c.Warnings = append(c.Warnings, section+".addr "+addr+" is not a loopback address and requires no credentials: any client "+
		"that can connect can spend, refund or reset any key; set "+remedy+", or "+section+".insecure: true if the network restricts access")
}
