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

// demoSettings are the flags of demo.
type demoSettings struct {
	httpAddr             string
	allowHost            []string
	store                string
	redisHost, redisPort string
	addrGiven            bool // set by flag or environment
	moved                bool // to a free port, because the default port is in use
}

func (d *demoSettings) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&d.httpAddr, "http-addr", defaultDemoAddr,
		"listen address `host:port`; if the default is in use, a free port")
	f.StringSliceVar(&d.allowHost, "allow-host", nil,
		"host `name` of the page, besides localhost and IP addresses; can be repeated")
	f.StringVar(&d.store, "store", "memory://", "store `url`, as for headgate serve")
	f.StringVar(&d.redisHost, "redis-host", "", "Redis `host`, or REDIS_HOST")
	f.StringVar(&d.redisPort, "redis-port", "", "Redis `port`, or REDIS_PORT; 6379 if only the host is set")
}

// choose applies the environment and selects the store. Flags override variables, and the
// Redis flags override a store in a variable.
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

// redisVariables returns a lookup of the variables that the Redis flags override.
func (d *demoSettings) redisVariables(lookup func(string) (string, bool)) func(string) (string, bool) {
	flags := map[string]string{"REDIS_HOST": d.redisHost, "REDIS_PORT": d.redisPort}
	return func(name string) (string, bool) {
		if value := flags[name]; value != "" {
			return value, true
		}
		return lookup(name)
	}
}

// invalidFlag returns the error for a flag whose value is not accepted.
func invalidFlag(flag, value, accepted string) error {
	return fmt.Errorf("--%s (or %s) is %s; must be %s", flag, service.Variable(flag), value, accepted)
}

// setFromEnvironment sets the flags that were not given from their variables. An empty
// variable is ignored.
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
