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

// minimalACL is the set of permissions that the store requires; docs/operate/stores.md
// has the same text.
const minimalACL = "~hg:* +evalsha +eval +time +get +set +mget +del +unlink +pexpire +pexpireat +pttl +setrange +hget +hset +hdel +zadd +zcard +zscore +zremrangebyrank +zremrangebyscore"

// guideACL is what LayoutGuide requires in addition, with the pattern of the bucket
// keys.
const guideACL = "~bucket:* +hmget +hset +hlen"

// ephemeralACL is what an ephemeral namespace, and so a replay, requires in addition.
const ephemeralACL = "+scan"

// exerciseAlgorithms uses every algorithm and every verb, and returns the first error.
func exerciseAlgorithms(ctx context.Context, s *redisstore.Store, instant headgate.Instant) error {
	for _, a := range algo.Rates() {
		limit := headgate.Limit{Rate: 1000, Period: time.Hour}
		b, err := s.Bind(headgate.Rule{Scope: "use", Name: "use", Limit: limit, Algorithm: a.Name, Holds: headgate.HoldSettings{MaxOpen: 1}})
		if err != nil {
			return err
		}
		if err := exerciseRule(ctx, s, b, instant, string(a.Name)); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		if !a.Name.CanHold() {
			continue
		}
		if err := exerciseHolds(ctx, b.(headgate.HoldBound), instant); err != nil {
			return fmt.Errorf("holds of %s: %w", a.Name, err)
		}
	}
	return nil
}

// exerciseDocuments saves, loads and removes a document.
func exerciseDocuments(ctx context.Context, s *redisstore.Store) error {
	version, err := s.SaveDocument(ctx, "acl", 0, []byte("x"))
	if err != nil {
		return err
	}
	if _, err := s.LoadDocument(ctx, "acl", 0); err != nil {
		return err
	}
	_, err = s.SaveDocument(ctx, "acl", version, nil)
	return err
}

// exerciseHolds opens and commits two holds. The record of the first one is then dropped.
func exerciseHolds(ctx context.Context, b headgate.HoldBound, now headgate.Instant) error {
	for range 2 {
		op := headgate.HoldOp{Op: headgate.Op{Bound: b, Key: "held", Cost: 1}, ID: headgate.NewHoldID()}
		for _, verb := range []headgate.HoldVerb{headgate.OpenHold, headgate.ExtendHold, headgate.CommitHold} {
			if _, _, err := b.ApplyHold(ctx, now, verb, time.Minute, op); err != nil {
				return err
			}
		}
	}
	return nil
}

func exerciseRule(ctx context.Context, s *redisstore.Store, b headgate.Bound, now headgate.Instant, key string) error {
	for i := range 200 { // a log of this size has chunks
		at := now
		if now != headgate.StoreClock {
			at += headgate.Instant(i * 1000)
		}
		if _, err := b.Apply(ctx, at, key, headgate.Take, 1); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		verb headgate.Verb
		cost int64
	}{{headgate.Peek, 1}, {headgate.Take, 1}, {headgate.Refund, 150}, {headgate.Reset, 1}, {headgate.Take, 1}} {
		if _, err := b.Apply(ctx, now, key, step.verb, step.cost); err != nil {
			return err
		}
	}
	ops := []headgate.Op{{Bound: b, Key: key + " a", Cost: 1}, {Bound: b, Key: key + " b", Cost: 1}}
	if err := s.ApplyAll(ctx, now, ops, false, make([]headgate.Decision, 2)); err != nil {
		return err
	}
	if err := exerciseConcurrently(ctx, b, now, key); err != nil || !b.CanReserve() {
		return err
	}
	_, token, err := b.Reserve(ctx, now, key, 1, time.Hour)
	if err != nil {
		return err
	}
	_, err = b.Cancel(ctx, now, key, 1, token)
	return err
}

// exerciseConcurrently makes concurrent calls on different keys, so that some share a
// batch. The third call on a key overwrites the state in place.
func exerciseConcurrently(ctx context.Context, b headgate.Bound, now headgate.Instant, key string) error {
	const callers = 200
	failed := make(chan error, callers)
	for i := range callers {
		go func() {
			var err error
			for range 3 {
				_, e := b.Apply(ctx, now, fmt.Sprint(key, " ", i), headgate.Take, 1)
				err = errors.Join(err, e)
			}
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

// exerciseStore uses the store with the server's clock, and then with passed instants
// as a replay does.
func exerciseStore(t *testing.T, url string) error {
	t.Helper()
	var errs []error
	for _, now := range []headgate.Instant{headgate.StoreClock, headgate.InstantOf(time.Now())} {
		s, err := redisstore.Open(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		errs = append(errs, exerciseAlgorithms(t.Context(), s, now), exerciseDocuments(t.Context(), s), s.Close())
	}
	return errors.Join(errs...)
}

func exerciseGuideLayout(t *testing.T, url string) error {
	t.Helper()
	s := open(t, url, &redisstore.Options{Layout: redisstore.LayoutGuide})
	b, err := s.Bind(headgate.Rule{Limit: headgate.MustParseLimit("10/1s"), Algorithm: headgate.TokenBucketInterval})
	if err != nil {
		t.Fatal(err)
	}
	return exerciseRule(t.Context(), s, b, headgate.StoreClock, "bucket:7")
}

func exerciseEphemeral(t *testing.T, url string) error {
	t.Helper()
	s, err := redisstore.Open(url, &redisstore.Options{Ephemeral: true, Namespace: "brief"})
	if err != nil {
		t.Fatal(err)
	}
	return errors.Join(exerciseAlgorithms(t.Context(), s, headgate.StoreClock), s.Close())
}

// With the documented permissions everything works. Without any one of them the store
// returns an error that explains it.
func TestMinimalACL(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	text, err := os.ReadFile("../docs/operate/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rules string
		extra string // permissions that are removed one at a time
		use   func(*testing.T, string) error
	}{
		"base":      {rules: minimalACL, extra: minimalACL, use: exerciseStore},
		"guides":    {rules: minimalACL + " " + guideACL, extra: guideACL, use: exerciseGuideLayout},
		"ephemeral": {rules: minimalACL + " " + ephemeralACL, extra: ephemeralACL, use: exerciseEphemeral},
	} {
		if !strings.Contains(string(text), c.extra) {
			t.Errorf("%s: docs/operate/stores.md does not contain %q", name, c.extra)
		}
		url := "redis://gate:s3cret@" + server.Addr()
		setACL(t, server, strings.Fields(c.rules))
		if err := c.use(t, url); err != nil {
			t.Errorf("%s with %s: %v", name, c.rules, err)
		}
		for _, rule := range strings.Fields(c.extra) {
			rules := slices.DeleteFunc(strings.Fields(c.rules), func(r string) bool { return r == rule })
			setACL(t, server, rules)
			err := c.use(t, url)
			var storeErr *headgate.StoreError
			if !errors.As(err, &storeErr) || storeErr.Reason != headgate.ReasonRefused || !strings.Contains(storeErr.Advice, "the user's ACL lacks a permission") {
				t.Errorf("%s without %s: got %v want refused, because of the ACL", name, rule, err)
			}
		}
	}
}

// setACL recreates the user gate with these permissions only, and empties the server.
func setACL(t *testing.T, server *testserver.RedisServer, rules []string) {
	t.Helper()
	server.Do(t, "FLUSHALL")
	server.Do(t, "SCRIPT", "FLUSH")
	server.Do(t, append([]string{"ACL", "SETUSER", "gate", "reset", "on", ">s3cret"}, rules...)...)
}

// What the clients for a cluster and for Sentinel require in addition.
const (
	clusterACL  = "+cluster|slots +cluster|shards"
	sentinelACL = "+role"
)

func TestMinimalACLClusterAndSentinel(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operate/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := func(extra string) testserver.Option {
		if !strings.Contains(string(text), "`"+extra+"`") {
			t.Errorf("docs/operate/stores.md does not contain %q", extra)
		}
		return testserver.ACL("gate", "s3cret", strings.Fields(minimalACL+" "+extra)...)
	}
	cluster, sentinel := testserver.Cluster(t, 3, 0, rules(clusterACL)), testserver.Sentinel(t, rules(sentinelACL))
	for _, url := range []string{
		"redis+cluster://gate:s3cret@" + cluster.Addrs()[0],
		"redis+sentinel://gate:s3cret@" + strings.Join(sentinel.Addrs(), ",") + "/" + sentinel.MasterName(),
	} {
		if err := exerciseStore(t, url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
