package config

import (
	"net"
	"net/netip"
	"strings"
)

// Admin are the settings of the door for who runs the service.
type Admin struct {
	Addr  Address `yaml:"addr" default:"127.0.0.1:6070" restart:"yes" help:"where to listen for operators: metrics, profiles, what is in force; a token is needed where others than this machine can reach it; off closes this door"`
	Token Secret  `yaml:"token" restart:"yes" help:"what operators must send, as Authorization: Bearer TOKEN"`
	Keys  bool    `yaml:"keys" default:"false" restart:"yes" help:"/debug/top-denied shows keys as they are, and not their hashes"`
}

// Metrics are the settings of a door that has nothing but metrics.
type Metrics struct {
	Addr Address `yaml:"addr" default:"off" restart:"yes" help:"where Prometheus finds metrics without a token, beside the door for operators: host:port, whatever the path, or off"`
}

// Log are the settings of the log.
type Log struct {
	Format     string `yaml:"format" default:"text" oneof:"text json" restart:"yes" help:"how lines are written: text or json"`
	Level      string `yaml:"level" default:"info" oneof:"debug info warn error" restart:"yes" help:"what is left out: everything below; denials are info"`
	Denials    int    `yaml:"denials" default:"10" range:"0 100000" restart:"yes" help:"most denials that are logged of a policy in a second; 0: none"`
	Keys       bool   `yaml:"keys" default:"false" restart:"yes" help:"denials are logged with keys as they are, and not their hashes"`
	HashSecret Secret `yaml:"hash_secret" restart:"yes" help:"what keys are hashed with, so that instances write the same; if it is not here, one by chance at each start"`
}

// loopback reports whether only this machine can reach an address. A name counts only if it is localhost: others may come to mean more.
func (a Address) loopback() bool {
	host, _, err := net.SplitHostPort(string(a))
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || err != nil && strings.EqualFold(host, "localhost")
}

// checkAdmin refuses a door for operators that strangers can reach and that asks for no token.
func (c *Config) checkAdmin() *Error {
	if c.Admin.Addr == Off || c.Admin.Addr == "" || c.Admin.Token != "" || c.Admin.Addr.loopback() {
		return nil
	}
	_, port, _ := net.SplitHostPort(string(c.Admin.Addr))
	return c.wrong("admin.addr", string(c.Admin.Addr)+
		" can be reached by others than this machine, and there is no token: set admin.token (--admin-token or HEADGATE_ADMIN_TOKEN), listen on 127.0.0.1:"+
		port+", or, for metrics alone, choose --metrics-addr")
}
