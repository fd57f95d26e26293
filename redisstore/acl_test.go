package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// least is what a user must be allowed so that the store works; docs/operations.md says so in the same words.
const least = "~hg:* +evalsha +eval +time +get +set +mget +del +pexpire +pexpireat +getrange +setrange +strlen"

// leastGuides is what the guides' layout needs besides, with the keys that hold its buckets.
const leastGuides = "~bucket:* +hmget +hset"

// leastEphemeral is what an ephemeral namespace needs besides, and so a replay.
const leastEphemeral = "+scan +unlink"

// useAll does everything that the store does, and reports what could not be done.
func useAll(ctx context.Context, s *redisstore.Store, instant headgate.Instant) error {
	for _, a := range algo.All() {
		limit := headgate.Limit{Rate: 1000, Period: time.Hour}
		b, err := s.Bind(headgate.Rule{Scope: "use", Name: "use", Limit: limit, Algorithm: a.Name})
		if err != nil {
			return err
		}
		if err := useOne(ctx, s, b, instant, string(a.Name)); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	return nil
}

func useOne(ctx context.Context, s *redisstore.Store, b headgate.Bound, now headgate.Instant, key string) error {
	for i := range 90 { // a log of so many entries is edited in its place
		at := now
		if now != headgate.StoreClock {
			at += headgate.Instant(i * 1000)
		}
		if _, err := b.Apply(ctx, at, key, headgate.Take, 1); err != nil {
			return err
		}
	}
	for _, verb := range []headgate.Verb{headgate.Peek, headgate.Take, headgate.Refund, headgate.Reset, headgate.Take} {
		if _, err := b.Apply(ctx, now, key, verb, 1); err != nil {
			return err
		}
	}
	ops := []headgate.Op{{Bound: b, Key: key + " a", Cost: 1}, {Bound: b, Key: key + " b", Cost: 1}}
	if err := s.ApplyAll(ctx, now, ops, false, make([]headgate.Decision, 2)); err != nil {
		return err
	}
	if err := useTogether(ctx, b, now, key); err != nil || !b.CanReserve() {
		return err
	}
	_, mark, err := b.Reserve(ctx, now, key, 1, time.Hour)
	if err != nil {
		return err
	}
	_, err = b.Cancel(ctx, now, key, 1, mark)
	return err
}

// useTogether has so many callers ask for keys of their own that some share a call.
func useTogether(ctx context.Context, b headgate.Bound, now headgate.Instant, key string) error {
	const callers = 200
	failed := make(chan error, callers)
	for i := range callers {
		go func() {
			_, err := b.Apply(ctx, now, fmt.Sprint(key, " ", i), headgate.Take, 1)
			failed <- err
		}()
	}
	var first error
	for range callers {
		if err := <-failed; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// useEverything works as the live service does, then as a replay, then in the guides' layout, all as one user.
func useEverything(t *testing.T, url string) error {
	t.Helper()
	var errs []error
	for _, now := range []headgate.Instant{headgate.StoreClock, headgate.InstantOf(time.Now())} {
		s, err := redisstore.Open(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		errs = append(errs, useAll(t.Context(), s, now), s.Close())
	}
	return errors.Join(errs...)
}

func useGuides(t *testing.T, url string) error {
	t.Helper()
	s := open(t, url, &redisstore.Options{Layout: redisstore.LayoutGuide})
	b, err := s.Bind(headgate.Rule{Limit: headgate.MustParseLimit("10/1s"), Algorithm: headgate.TokenBucketInterval})
	if err != nil {
		t.Fatal(err)
	}
	return useOne(t.Context(), s, b, headgate.StoreClock, "bucket:7")
}

func useEphemeral(t *testing.T, url string) error {
	t.Helper()
	s, err := redisstore.Open(url, &redisstore.Options{Ephemeral: true, Namespace: "brief"})
	if err != nil {
		t.Fatal(err)
	}
	return errors.Join(useAll(t.Context(), s, headgate.StoreClock), s.Close())
}

// A user with the documented rules can do everything; without any one of them he cannot, and is told why.
func TestTheLeastThatAUserMustBeAllowed(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rules string
		extra string // what is tried without
		use   func(*testing.T, string) error
	}{
		"base":      {rules: least, extra: least, use: useEverything},
		"guides":    {rules: least + " " + leastGuides, extra: leastGuides, use: useGuides},
		"ephemeral": {rules: least + " " + leastEphemeral, extra: leastEphemeral, use: useEphemeral},
	} {
		if !strings.Contains(string(text), c.extra) {
			t.Errorf("%s: docs/operations.md does not say %q", name, c.extra)
		}
		url := "redis://gate:s3cret@" + server.Addr()
		allow(t, server, strings.Fields(c.rules))
		if err := c.use(t, url); err != nil {
			t.Errorf("%s with %s: %v", name, c.rules, err)
		}
		for _, rule := range strings.Fields(c.extra) {
			rules := slices.DeleteFunc(strings.Fields(c.rules), func(r string) bool { return r == rule })
			allow(t, server, rules)
			err := c.use(t, url)
			var trouble *headgate.StoreError
			if !errors.As(err, &trouble) || trouble.Reason != headgate.ReasonRefused || !strings.Contains(trouble.Advice, "the user's ACL lacks a permission") {
				t.Errorf("%s without %s: got %v want refused, because of the ACL", name, rule, err)
			}
		}
	}
}

// allow makes the user gate anew, with nothing but these rules and an empty server.
func allow(t *testing.T, server *testserver.RedisServer, rules []string) {
	t.Helper()
	server.Do(t, "FLUSHALL")
	server.Do(t, "SCRIPT", "FLUSH")
	server.Do(t, append([]string{"ACL", "SETUSER", "gate", "reset", "on", ">s3cret"}, rules...)...)
}

// What a cluster's client, and that of sentinels, asks besides.
const (
	leastCluster  = "+cluster|slots +cluster|shards"
	leastSentinel = "+role"
)

func TestTheLeastInAClusterAndBehindSentinels(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := func(extra string) testserver.Option {
		if !strings.Contains(string(text), "`"+extra+"`") {
			t.Errorf("docs/operations.md does not say %q", extra)
		}
		return testserver.ACL("gate", "s3cret", strings.Fields(least+" "+extra)...)
	}
	cluster, sentinel := testserver.Cluster(t, 3, 0, rules(leastCluster)), testserver.Sentinel(t, rules(leastSentinel))
	for _, url := range []string{
		"redis+cluster://gate:s3cret@" + cluster.Addrs()[0],
		"redis+sentinel://gate:s3cret@" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName(),
	} {
		if err := useEverything(t, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
