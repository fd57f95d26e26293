package config

import (
	"net"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

// Admin are the settings of the door for who runs the service.
type Admin struct {
	Addr  Address `yaml:"addr" default:"127.0.0.1:6070" restart:"yes"`
	Token Secret  `yaml:"token" restart:"yes"`
	Keys  bool    `yaml:"keys" default:"false" restart:"yes"`
}

// Metrics are the settings of a door that has nothing but metrics.
type Metrics struct {
	Addr Address `yaml:"addr" default:"off" restart:"yes"`
}

// Log are the settings of the log.
type Log struct {
	Format     string `yaml:"format" default:"text" oneof:"text json" restart:"yes"`
	Level      string `yaml:"level" default:"info" oneof:"debug info warn error" restart:"yes"`
	Denials    int    `yaml:"denials" default:"10" range:"0 100000" restart:"yes"`
	Keys       bool   `yaml:"keys" default:"false" restart:"yes"`
	HashSecret Secret `yaml:"hash_secret" restart:"yes"`
}

// checkAdmin refuses a door for operators that strangers can reach and that asks for no token.
func (c *Config) checkAdmin() *Error {
	if c.Admin.Addr == Off || c.Admin.Addr == "" || c.Admin.Token != "" || localaccess.Address(string(c.Admin.Addr)) {
		return nil
	}
	_, port, _ := net.SplitHostPort(string(c.Admin.Addr))
	return c.wrong("admin.addr", string(c.Admin.Addr)+
		" can be reached by others than this machine, and there is no token: set admin.token (--admin-token or HEADGATE_ADMIN_TOKEN), listen on 127.0.0.1:"+
		port+", or, for metrics alone, choose --metrics-addr")
}
