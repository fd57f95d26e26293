package redisstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// interruptedClient executes a function after its next call.
type interruptedClient struct {
	redisstore.Client
	next func()
}

func (c *interruptedClient) Run(ctx context.Context, calls []redisstore.Call, replies []redisstore.Reply) {
	c.Client.Run(ctx, calls, replies)
	if next := c.next; next != nil {
		c.next = nil
		next()
	}
}

// upToCase is a TakeUpTo of 8 units on two nodes. The second key has 3 units.
type upToCase struct {
	algorithm headgate.Algorithm
	ops       int           // number of ops on the first key
	later     time.Duration // when another client takes 4 units of the first key, or 0 if none does
}

// After a TakeUpTo on several nodes, each key is as if exactly the granted units had been
// taken. Another client may use a key before the last node has decided: when the bucket
// of the key is full again, or in the next window.
func TestTakeUpToChargesWhatItGrants(t *testing.T) {
	t.Parallel()
	client := &interruptedClient{Client: newClusterKeys(t, headgate.TokenBucket).client(nil)}
	s, err := redisstore.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, a := range algo.Rates() {
		if !correctable(t, a) {
			continue
		}
		for _, ops := range []int{1, 2} {
			for _, later := range []time.Duration{0, 9 * time.Second, 10 * time.Second, 11 * time.Second} {
				if !a.Name.CanHold() && later > 0 {
					continue // a request after the take may be queued behind it
				}
				c := upToCase{a.Name, ops, later}
				c.run(t, s, client)
			}
		}
	}
}

// correctable reports whether charges of the algorithm can be corrected, which a
// TakeUpTo requires.
func correctable(t *testing.T, a algo.Algorithm) bool {
	t.Helper()
	if a.NewLog != nil {
		return true
	}
	step, err := a.New(headgate.MustParseLimit("10/hour"))
	if err != nil {
		t.Fatal(err)
	}
	_, ok := step.(algo.Corrector)
	return ok
}

func (c upToCase) run(t *testing.T, s *redisstore.Store, client *interruptedClient) {
	t.Helper()
	limit := headgate.MustParseLimit("10/10s")
	if c.algorithm.HasCalendar() {
		limit = headgate.MustParseLimit("10/hour")
	}
	b, err := s.Bind(headgate.Rule{Scope: t.Name() + string(c.algorithm) + c.later.String() + string(rune('0'+c.ops)), Limit: limit, Algorithm: c.algorithm})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(key string, at headgate.Instant, v headgate.Verb, cost int64) headgate.Decision {
		t.Helper()
		d, err := b.Apply(t.Context(), at, key, v, cost)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const first, second, same = "first", "second", "same" // each is in a slot of its own
	later, taken := testInstant+headgate.Instant(c.later.Microseconds()), false
	apply(first, testInstant, headgate.Peek, 0)
	apply(second, testInstant, headgate.Take, 7)
	ops := slices.Repeat([]headgate.HoldOp{{Op: headgate.Op{Bound: b, Key: first, Cost: 8}}}, c.ops)
	ops = append(ops, headgate.HoldOp{Op: headgate.Op{Bound: b, Key: second, Cost: 8}})
	results := make([]headgate.HoldResult, len(ops))
	if c.later > 0 {
		client.next = func() { taken = apply(first, later, headgate.Take, 4).Allowed }
	}
	if _, err := s.ApplyHolds(t.Context(), testInstant, headgate.TakeUpTo, 0, ops, results); err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Granted != 3 {
			t.Errorf("%+v: op %d: got %d granted want 3", c, i+1, r.Granted)
		}
	}
	apply(same, testInstant, headgate.Take, 3*int64(c.ops))
	if taken {
		apply(same, later, headgate.Take, 4)
	}
	if got, want := results[0].Decision, apply(same, testInstant, headgate.Peek, 0); c.later == 0 && (got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter) {
		t.Errorf("%+v: got result %+v want %+v", c, got, want)
	}
	for _, at := range []headgate.Instant{later, later + 1_500_000, later + 10_000_000} {
		got, want := apply(first, at, headgate.Peek, 9), apply(same, at, headgate.Peek, 9)
		if got.Remaining != want.Remaining || got.RetryAfter != want.RetryAfter || got.ResetAfter != want.ResetAfter {
			t.Errorf("%+v: %v after the call: got %+v want %+v", c, time.Duration(at-testInstant)*time.Microsecond, got, want)
		}
	}
}

// The reply of the second of three nodes is lost. Its units are cancelled, and those of
// the first node.
func TestTakeUpToWithLostReplyIsCancelled(t *testing.T) {
	t.Parallel()
	c := newClusterKeys(t, headgate.TokenBucket)
	proxy := testserver.Proxy(t, c.cluster.Nodes()[2].Addr())
	s, err := redisstore.New(c.client(proxy), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if c.bound, err = s.Bind(headgate.Rule{Scope: "policy:0:p", Name: "p", Limit: headgate.MustParseLimit("10/24h"), Algorithm: headgate.TokenBucket}); err != nil {
		t.Fatal(err)
	}
	c.mustRemain(10, 10, 10)
	ops, results := c.ops(1, 4)
	ops[1], ops[2] = ops[2], ops[1]
	proxy.DropRepliesTo(1, "EVALSHA")
	if _, err := s.ApplyHolds(t.Context(), testInstant, headgate.TakeUpTo, 0, ops, results); err == nil {
		t.Errorf("got %+v want an error", results)
	}
	c.mustRemain(10, 10, 10)
}
