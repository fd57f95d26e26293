package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/service/engine"
	"github.com/headgate/headgate/service/httpapi"
	"github.com/headgate/headgate/service/storeopen"
)

// doorOff closes a door when it stands in place of an address.
const doorOff = "off"

// serveSettings are the flags of serve.
type serveSettings struct {
	httpAddr        string
	store           string
	storeOptions    storeopen.Options
	engine          engine.Options
	httpapi         httpapi.Options
	http            httpapi.ServerOptions
	drainDelay      time.Duration
	shutdownTimeout time.Duration
}

func (s *serveSettings) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.httpAddr, "http-addr", "127.0.0.1:8080", "where to listen for HTTP: `host:port`; port 0 takes a free one; off closes this door")
	f.StringVar(&s.store, "store", "memory://", "where state is kept: memory://, redis://host:6379, rediss://…, redis+sentinel://host:26379/NAME, "+
		"redis+cluster://…, redis+unix:///path, memcached://host:11211 (`url`); REDIS_HOST and REDIS_PORT choose Redis, too")
	f.StringVar((*string)(&s.engine.OnStoreError), "on-store-error", string(headgate.FailClosed), "what holds for checks without a policy while the store is away: "+
		"closed (503), open (admitted) or local (a share of the limit, see --instances)")
	f.IntVar(&s.storeOptions.Instances, "instances", 0, "how many instances share the store; each admits one share of so many while local holds")
	f.DurationVar(&s.storeOptions.Budget, "store-budget", storeopen.DefaultBudget, "longest time to wait for the store, in one decision")
	f.IntVar(&s.engine.MaxKeyBytes, "max-key-bytes", engine.DefaultMaxKeyBytes, "longest key")
	f.IntVar(&s.engine.MaxChecks, "max-checks", engine.DefaultMaxChecks, "most checks in one request")
	f.IntVar(&s.httpapi.MaxBodyBytes, "max-body-bytes", httpapi.DefaultMaxBodyBytes, "longest body of a request")
	f.IntVar(&s.http.MaxHeaderBytes, "max-header-bytes", 16<<10, "longest header of a request, to some 4096 bytes")
	f.DurationVar(&s.http.HeaderTimeout, "header-timeout", 5*time.Second, "longest time to read a request's header")
	f.DurationVar(&s.http.ReadTimeout, "read-timeout", 10*time.Second, "longest time to read a whole request")
	f.DurationVar(&s.http.WriteTimeout, "write-timeout", 10*time.Second, "longest time to answer a request")
	f.DurationVar(&s.http.IdleTimeout, "idle-timeout", 2*time.Minute, "longest time between two requests on a connection")
	f.DurationVar(&s.drainDelay, "drain-delay", 0, "how long to go on answering, and say draining, once told to stop")
	f.DurationVar(&s.shutdownTimeout, "shutdown-timeout", 10*time.Second, "how long requests in flight may take after that")
}

// validate refuses settings that would not do what they say.
func (s *serveSettings) validate() error {
	if s.httpAddr == doorOff {
		return errors.New("no door is open: --http-addr is off, and there is no other")
	}
	if _, port, err := net.SplitHostPort(s.httpAddr); err != nil || port == "" {
		return outside("http-addr", strconv.Quote(s.httpAddr), "host:port, such as 127.0.0.1:8080, or off")
	}
	for _, n := range []struct {
		flag  string
		value int
		most  int
	}{
		{"max-key-bytes", s.engine.MaxKeyBytes, 64 << 10},
		{"max-checks", s.engine.MaxChecks, 1 << 10},
		{"max-body-bytes", s.httpapi.MaxBodyBytes, 16 << 20},
		{"max-header-bytes", s.http.MaxHeaderBytes, 1 << 20},
	} {
		if n.value < 1 || n.value > n.most {
			return outside(n.flag, strconv.Itoa(n.value), fmt.Sprintf("1 to %d", n.most))
		}
	}
	for _, d := range []struct {
		flag         string
		value, least time.Duration
	}{
		{"header-timeout", s.http.HeaderTimeout, time.Millisecond},
		{"read-timeout", s.http.ReadTimeout, time.Millisecond},
		{"write-timeout", s.http.WriteTimeout, time.Millisecond},
		{"idle-timeout", s.http.IdleTimeout, time.Millisecond},
		{"drain-delay", s.drainDelay, 0},
		{"shutdown-timeout", s.shutdownTimeout, time.Millisecond},
	} {
		if d.value < d.least || d.value > 24*time.Hour {
			return outside(d.flag, d.value.String(), fmt.Sprintf("%v to 24h", d.least))
		}
	}
	return s.validateStore()
}

// validateStore refuses what would hold while the store is away, and could not.
func (s *serveSettings) validateStore() error {
	mode, instances, budget := s.engine.OnStoreError, s.storeOptions.Instances, s.storeOptions.Budget
	switch {
	case mode.Validate() != nil:
		return outside("on-store-error", fmt.Sprintf("%.20q", string(mode)), "closed, open and local")
	case instances < 0 || instances > 100_000:
		return outside("instances", strconv.Itoa(instances), "0 (not known) to 100000")
	case mode == headgate.FailLocal && instances == 0 && storeopen.Networked(s.store):
		return errors.New("--on-store-error local grants each instance its share of a limit: say among how many, with --instances (or " +
			environmentName("instances") + ")")
	case budget < time.Millisecond || budget > time.Minute:
		return outside("store-budget", budget.String(), "1ms to 1m")
	}
	return nil
}

// chooseRedis takes the Redis that REDIS_HOST and REDIS_PORT name, if no store was chosen otherwise. Kubernetes sets a REDIS_PORT of
// its own, tcp://address:port, beside every service called redis: alone it chooses nothing.
func (s *serveSettings) chooseRedis(f *pflag.FlagSet, lookup func(string) (string, bool)) {
	host, _ := lookup("REDIS_HOST")
	port, _ := lookup("REDIS_PORT")
	linked := strings.Contains(port, "://")
	if f.Changed("store") || host == "" && (port == "" || linked) {
		return
	}
	if linked {
		port = port[strings.LastIndexByte(port, ':')+1:]
	}
	s.store = "redis://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), cmp.Or(port, "6379"))
}

func outside(flag, value, accepted string) error {
	return fmt.Errorf("--%s (or %s) is %s; accepted: %s", flag, environmentName(flag), value, accepted)
}

// environmentName is the variable that sets a flag.
func environmentName(flag string) string {
	return "HEADGATE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setFromEnvironment sets the flags that were not given from their variables. An empty variable is none.
func setFromEnvironment(f *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		name := environmentName(flag.Name)
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
