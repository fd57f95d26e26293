package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest/history"
)

// forgetful is a store in which a key is unused under each limit that it did not have
// before.
type forgetful struct{ *memstore.Store }

func (s forgetful) Bind(r headgate.Rule) (headgate.Bound, error) {
	r.Scope += r.Limit.String()
	return s.Store.Bind(r)
}

// clipping is a store whose debits spend only what remains.
type clipping struct{ *memstore.Store }

func (s clipping) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if verb == headgate.Debit {
		verb = headgate.TakeUpTo
	}
	return s.Store.ApplyHolds(ctx, now, verb, ttl, ops, results)
}

// Histories with several limits, and with bans, explain a correct store and no other.
func TestOverridesAndBans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		suite Suite
		wrap  func(*memstore.Store) headgate.Store
		want  string // in the error; empty for none
	}{
		"overrides":                  {Suite{Overrides: true}, func(s *memstore.Store) headgate.Store { return s }, ""},
		"overrides, forgetful store": {Suite{Overrides: true}, func(s *memstore.Store) headgate.Store { return forgetful{s} }, "no order"},
		"bans":                       {Suite{Bans: true}, func(s *memstore.Store) headgate.Store { return s }, ""},
		"bans, clipping store":       {Suite{Bans: true}, func(s *memstore.Store) headgate.Store { return clipping{s} }, "no order"},
	} {
		inner := memstore.New(nil)
		store := c.wrap(inner)
		suite := c.suite
		suite.Histories, suite.Keys = 40, 40
		suite = suite.withDefaults()
		f := Fault{Inject: func(context.Context) error { return nil }, Duration: time.Millisecond}
		r := &run{suite: suite, fault: f.withDefaults(suite), stores: []headgate.Store{store, store}, check: (*history.Log).Check}
		if err := r.runAll(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %.500v want %q", name, err, c.want)
		}
		_ = inner.Close()
	}
}
