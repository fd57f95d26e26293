package storeopen

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memcachedstore"
)

const memcached = "memcached"

func openMemcached(rawURL, scratch string, observer headgate.StoreObserver) (headgate.Store, error) {
	servers, opts, err := memcachedOptions(rawURL)
	if err != nil {
		return nil, err
	}
	if clock, ok := observer.(ClockObserver); ok {
		opts.OnClockSkew = clock.ObserveClockSkew
	}
	if scratch != "" {
		opts.Namespace, opts.Ephemeral = scratch, true
		if opts.Timeout == 0 {
			opts.Timeout = scratchTimeout
		}
	}
	store, err := memcachedstore.New(opts, servers...)
	if err != nil {
		return nil, &Error{memcached, reason(err, "memcachedstore: "), err}
	}
	return store, nil
}

// memcachedOptions parses a store URL of the form
// memcached://host:port,host:port?name=value, or memcached:///path for a Unix socket.
func memcachedOptions(rawURL string) ([]string, *memcachedstore.Options, error) {
	wrong := func(reason string) ([]string, *memcachedstore.Options, error) {
		return nil, nil, &Error{memcached, reason, nil}
	}
	rest, ok := strings.CutPrefix(rawURL[len(memcached):], "://")
	hosts, query, _ := strings.Cut(rest, "?")
	if !strings.HasPrefix(hosts, "/") {
		hosts = strings.TrimSuffix(hosts, "/")
	}
	switch {
	case !ok || hosts == "":
		return wrong("address is missing; must be memcached://host:port, such as memcached://127.0.0.1:11211")
	case strings.Contains(hosts, "@"):
		return wrong("user and password are not supported; must be memcached://host:port")
	case !strings.HasPrefix(hosts, "/") && strings.Contains(hosts, "/"):
		return wrong("unexpected path after the addresses; a Unix socket is memcached:///path")
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return wrong("invalid parameters; must be ?name=value&name=value")
	}
	opts, err := memcachedParams(params)
	return strings.Split(hosts, ","), opts, err
}

func memcachedParams(params url.Values) (*memcachedstore.Options, error) {
	o := &memcachedstore.Options{}
	for name, values := range params {
		text, accepted := values[0], ""
		var err error
		switch name {
		case "namespace":
			o.Namespace = text
		case "timeout":
			accepted = "a duration such as 500ms"
			if o.Timeout, err = time.ParseDuration(text); o.Timeout <= 0 {
				err = strconv.ErrRange
			}
		case "max_conns":
			accepted, err = setWhole(&o.MaxConns, text)
		case "max_waiting":
			accepted, err = setWhole(&o.MaxWaiting, text)
		case "max_tries":
			accepted, err = setWhole(&o.MaxTries, text)
		case "join":
			accepted = "true or false"
			var join bool
			join, err = strconv.ParseBool(text)
			o.DisableJoin = !join
		default:
			return nil, &Error{memcached, fmt.Sprintf("unknown parameter %.40q; must be one of namespace, timeout, max_conns, "+
				"max_waiting, max_tries, join", name), nil}
		}
		if err != nil || len(values) > 1 {
			return nil, &Error{memcached, fmt.Sprintf("parameter %s must be set once, to %s", name, accepted), err}
		}
	}
	return o, nil
}

func setWhole(to *int, text string) (accepted string, err error) {
	if *to, err = strconv.Atoi(text); *to < 1 {
		err = strconv.ErrRange
	}
	return "a whole number of at least 1", err
}

// MaxOpenHolds returns the maximum number of open holds of a key in the store of rawURL.
func MaxOpenHolds(rawURL string) int {
	if Name(rawURL) == memcached {
		return memcachedstore.MaxOpenHolds
	}
	return headgate.MaxOpenHolds
}
