package admin_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// banAtOnce begins the ban of a key with its first denial, like package bans.
type banAtOnce struct{ t *testing.T }

func (banAtOnce) Begin() int64 { return 1 }

func (o banAtOnce) Observe(e *engine.Event) {
	rules, banned := e.Ban(0)
	if rules == nil || banned || !e.Denied(0) {
		return
	}
	if b, err := rules.Count(o.t.Context(), headgate.StoreClock, e.Key(0), 1); err != nil || b.For != time.Hour {
		o.t.Errorf("got %+v, error %v want a ban", b, err)
	}
}

// An operator sees that a key is banned, also when its limit alone would allow a request.
func TestInspectShowsBan(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	ban := engine.Ban{After: 1, Within: time.Minute, For: time.Hour}
	if err := a.engine.Apply(&engine.Options{Policies: policies, PolicyOptions: map[string]engine.PolicyOptions{"api": {Ban: ban}}}); err != nil {
		t.Fatal(err)
	}
	a.engine = a.engine.WithObserver(banAtOnce{t}, 0)
	a.check("api", "bob", 10)
	a.check("api", "bob", 1)
	a.post(200, "keys/refund", `{"policy":"api","key":"bob","cost":5}`)
	got := a.inspect(`{"policy":"api","key":"bob"}`).Policies[0]
	if *got.Allowed || got.Ban == nil || !got.Ban.Banned || got.Ban.Bans != 1 || got.Limits[0].Remaining != 5 {
		t.Fatalf("a banned key: got %+v, ban %+v want denied by the ban and 5 units left", got, got.Ban)
	}
	if d := time.Until(got.Ban.Until); d < 59*time.Minute || d > time.Hour+time.Second {
		t.Errorf("the ban ends in %v want an hour", d)
	}
	if other := a.inspect(`{"policy":"two","key":"bob"}`).Policies[0]; other.Ban != nil {
		t.Errorf("a policy without bans: got %+v", other.Ban)
	}
	a.post(200, "overrides/set", `{"overrides":[{"policy":"api","target":"key:bob","limits":["unlimited"]}]}`)
	if exempt := a.inspect(`{"policy":"api","key":"bob"}`).Policies[0]; !*exempt.Allowed || exempt.Ban != nil {
		t.Errorf("an unlimited key: got %+v, ban %+v want allowed without bans", exempt, exempt.Ban)
	}
	a.post(200, "overrides/remove", `{"overrides":[{"policy":"api","target":"key:bob"}]}`)
	a.post(200, "keys/reset", `{"policy":"api","key":"bob"}`)
	if after := a.inspect(`{"policy":"api","key":"bob"}`).Policies[0]; !*after.Allowed || after.Ban == nil || after.Ban.Banned || after.Ban.Bans != 0 {
		t.Errorf("after a reset: got %+v, ban %+v want no ban", after, after.Ban)
	}
}
