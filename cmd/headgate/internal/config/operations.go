package config

import (
	"net"

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
	authenticated = resp.Insecure || resp.Password != "" || resp.TLS.CA != ""
	c.warnOfOpenListener("resp", string(resp.Addr), authenticated, "resp.password or resp.client_ca")
}

func (c *Config) warnOfOpenListener(section, addr string, authenticated bool, remedy string) {
	if addr == string(Off) || addr == "" || authenticated || localaccess.Address(addr) {
		return
	}
	c.Warnings = append(c.Warnings, section+".addr "+addr+" is not a loopback address and requires no credentials: any client "+
		"that can connect can spend, refund or reset any key; set "+remedy+", or "+section+".insecure: true if the network restricts access")
}
