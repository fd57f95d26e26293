package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
)

const defaultDemoAddr = "127.0.0.1:8080"

// demoSettings are the flags of demo.
type demoSettings struct {
	httpAddr             string
	allowHost            []string
	store                string
	redisHost, redisPort string
	addrGiven            bool // by flag or environment
	moved                bool // to a free port, as the default one is taken
}

func (d *demoSettings) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&d.httpAddr, "http-addr", defaultDemoAddr,
		"where to listen: `host:port`; a free port if nothing is said and this one is taken")
	f.StringSliceVar(&d.allowHost, "allow-host", nil,
		"`name` under which a browser may reach the page, beside localhost and addresses; can be repeated")
	f.StringVar(&d.store, "store", "memory://", "where state is kept: a `url` as for headgate serve")
	f.StringVar(&d.redisHost, "redis-host", "", "keep state in the Redis on this `host`, or REDIS_HOST")
	f.StringVar(&d.redisPort, "redis-port", "", "its `port`, or REDIS_PORT (6379)")
}

// choose takes what the environment says and chooses the store. Flags win over variables, and what is said of Redis on the
// command line over a store that a variable names.
func (d *demoSettings) choose(f *pflag.FlagSet, lookup func(string) (string, bool)) error {
	redis, store := f.Changed("redis-host") || f.Changed("redis-port"), f.Changed("store")
	if redis && store {
		return errors.New("--store and --redis-host or --redis-port: give one of them")
	}
	if err := setFromEnvironment(f, lookup); err != nil {
		return err
	}
	d.addrGiven = f.Changed("http-addr")
	if _, port, err := net.SplitHostPort(d.httpAddr); err != nil || port == "" {
		return outside("http-addr", strconv.Quote(d.httpAddr), "host:port, such as "+defaultDemoAddr)
	}
	if url, ok := config.RedisOf(d.redisVariables(lookup)); ok && (redis || !f.Changed("store")) {
		d.store = string(url)
	}
	return nil
}

// redisVariables are the variables with the flags in front of them.
func (d *demoSettings) redisVariables(lookup func(string) (string, bool)) func(string) (string, bool) {
	flags := map[string]string{"REDIS_HOST": d.redisHost, "REDIS_PORT": d.redisPort}
	return func(name string) (string, bool) {
		if value := flags[name]; value != "" {
			return value, true
		}
		return lookup(name)
	}
}

// outside is the error of a flag whose value is not accepted.
func outside(flag, value, accepted string) error {
	return fmt.Errorf("--%s (or %s) is %s; accepted: %s", flag, service.Variable(flag), value, accepted)
}

// setFromEnvironment sets the flags that were not given from their variables. An empty variable is none.
func setFromEnvironment(f *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		name := service.Variable(flag.Name)
		value, ok := lookup(name)
		if flag.Changed || !ok || value == "" || flag.Name == "help" || err != nil {
			return
		}
		if f.Set(flag.Name, value) != nil {
			err = fmt.Errorf("%s is %q; expected: %s", name, value, expected[flag.Value.Type()])
		}
	})
	return err
}

// expected says what a flag of each type takes.
var expected = map[string]string{"int": "a whole number", "duration": "a time such as 5s or 1m30s"}
