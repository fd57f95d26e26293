package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
)

const defaultDemoAddr = "127.0.0.1:8080"

// demoSettings are the settings of “headgate demo”.
type demoSettings struct {
	httpAddr             string
	allowHost            []string
	store                string
	redisHost, redisPort string
	addrGiven            bool // the address was set by a flag or a variable
	moved                bool // the page is on a free port, because the default port is in use
}

func (d *demoSettings) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&d.httpAddr, "http-addr", defaultDemoAddr,
		"listen address `host:port`; if the default port is in use, a free port is used")
	f.StringSliceVar(&d.allowHost, "allow-host", nil,
		"host `name` accepted in requests, besides localhost and IP addresses; repeatable")
	f.StringVar(&d.store, "store", "memory://", "store `url`, as for headgate serve")
	f.StringVar(&d.redisHost, "redis-host", "", "`host` name or address of a Redis server; variable REDIS_HOST")
	f.StringVar(&d.redisPort, "redis-port", "", "`port` of a Redis server; variable REDIS_PORT; 6379 if only the host is set")
}

// choose applies the environment variables and selects the store. Flags override
// variables, and --redis-host and --redis-port override a store URL in a variable.
func (d *demoSettings) choose(f *pflag.FlagSet, lookup func(string) (string, bool)) error {
	redis, store := f.Changed("redis-host") || f.Changed("redis-port"), f.Changed("store")
	if redis && store {
		return errors.New("--store excludes --redis-host and --redis-port; give one of them")
	}
	if err := setFromEnvironment(f, lookup); err != nil {
		return err
	}
	d.addrGiven = f.Changed("http-addr")
	if _, port, err := net.SplitHostPort(d.httpAddr); err != nil || port == "" {
		return invalidFlag("http-addr", strconv.Quote(d.httpAddr), "host:port, such as "+defaultDemoAddr)
	}
	if url, ok := config.RedisOf(d.redisVariables(lookup)); ok && (redis || !f.Changed("store")) {
		d.store = string(url)
	}
	return nil
}

// redisVariables wraps lookup: --redis-host and --redis-port override REDIS_HOST and
// REDIS_PORT.
func (d *demoSettings) redisVariables(lookup func(string) (string, bool)) func(string) (string, bool) {
	flags := map[string]string{"REDIS_HOST": d.redisHost, "REDIS_PORT": d.redisPort}
	return func(name string) (string, bool) {
		if value := flags[name]; value != "" {
			return value, true
		}
		return lookup(name)
	}
}

// invalidFlag returns the error for an invalid value of a flag or of its variable.
func invalidFlag(flag, value, accepted string) error {
	return fmt.Errorf("--%s (or %s) is %s; must be %s", flag, service.Variable(flag), value, accepted)
}

// setFromEnvironment sets each flag that was not given on the command line to the value
// of its variable. It ignores empty variables.
func setFromEnvironment(f *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		name := service.Variable(flag.Name)
		value, ok := lookup(name)
		if flag.Changed || !ok || value == "" || flag.Name == "help" || err != nil {
			return
		}
		if f.Set(flag.Name, value) != nil {
			err = fmt.Errorf("%s: %.40q is not %s", name, value, cmp.Or(flagKinds[flag.Value.Type()], "a valid value"))
		}
	})
	return err
}
