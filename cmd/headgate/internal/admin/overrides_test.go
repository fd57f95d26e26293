package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/admin"
)

func TestOverridesAreSetListedAndRemoved(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	set := decodeAs[admin.Overrides](t, a.post(200, "overrides/set", `{"reason":"launch","overrides":[
		{"policy":"api","target":"key:bob","limits":["50/1h"],"ttl":"2h"},
		{"policy":"api","target":"pattern:eve-*","limits":["block"],"reason":"abuse"},
		{"policy":"none","target":"policy","limits":["unlimited"],"until":"2099-01-01T00:00:00Z"}]}`)).Overrides
	if len(set) != 3 || set[0].Author != "local" || set[0].Reason != "launch" || set[1].Reason != "abuse" || set[1].Limits[0] != "0/s" {
		t.Fatalf("got %+v", set)
	}
	if set[0].Ignored != "" || set[2].Ignored == "" {
		t.Errorf("set: got %+v want the last one to be ignored", set)
	}
	if d := time.Until(set[0].Until); d < 119*time.Minute || d > 2*time.Hour {
		t.Errorf("the override ends in %v want 2h", d)
	}
	source := a.inspect(`{"policy":"api","key":"bob"}`).Policies[0]
	if s := source.Source; s.Kind != "store" || s.Target != "key:bob" || s.Author != "local" || s.Reason != "launch" || source.Limits[0].Capacity != 50 {
		t.Errorf("the key of the override: got %+v", source)
	}
	if blocked := a.inspect(`{"policy":"api","key":"eve-1"}`).Policies[0]; *blocked.Allowed || blocked.Source.Target != "pattern:eve-*" {
		t.Errorf("a blocked key: got %+v", blocked)
	}
	listed := decodeAs[admin.Overrides](t, a.get(200, "overrides")).Overrides
	if len(listed) != 3 || listed[0].Ignored != "" || listed[2].Ignored == "" {
		t.Errorf("the list: got %+v want the last one to be ignored", listed)
	}
	for query, want := range map[string]int{"?policy=api": 2, "?policy=none": 1, "?policy=": 0, "?policy=api&target=key:bob": 1, "?target=key:bob": 1} {
		if got := decodeAs[admin.Overrides](t, a.get(200, "overrides"+query)).Overrides; len(got) != want {
			t.Errorf("overrides%s: got %d want %d", query, len(got), want)
		}
	}
	removed := a.post(200, "overrides/remove", `{"reason":"over","overrides":[{"policy":"api","target":"key:bob"},{"policy":"api","target":"key:none"}]}`)
	if strings.TrimSpace(removed) != `{"removed":1}` {
		t.Errorf("got %s want 1 removed", removed)
	}
	if s := a.inspect(`{"policy":"api","key":"bob"}`).Policies[0].Source; s.Kind != "policy" {
		t.Errorf("after the removal: got %+v", s)
	}
	entries := decodeAs[admin.Audit](t, a.get(200, "audit")).Entries
	if len(entries) != 4 {
		t.Fatalf("the audit has %d entries want 4", len(entries))
	}
	if e := entries[0]; e.Action != "remove override" || e.Target != "key" || !strings.HasPrefix(e.Key, "h:") || !strings.HasPrefix(e.Before, "50/1h until ") || e.Reason != "over" {
		t.Errorf("the audit of the removal: got %+v", e)
	}
	if log := a.log.String(); strings.Contains(log, "bob") {
		t.Errorf("the log contains a key:\n%s", log)
	}
}

func TestManyOverridesHaveOneAuditEntry(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	one := `{"policy":"api","target":"key:K","limits":["5/1h"]}`
	var all []string
	for i := range 300 {
		all = append(all, strings.Replace(one, "K", strings.Repeat("k", i+1), 1))
	}
	a.post(200, "overrides/set", `{"overrides":[`+strings.Join(all, ",")+`]}`)
	entries := decodeAs[admin.Audit](t, a.get(200, "audit")).Entries
	if len(entries) != 1 || entries[0].After != "300 overrides" {
		t.Errorf("got %+v want one entry", entries)
	}
}

func TestActivity(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for range 13 {
		a.check("api", "bob", 1)
	}
	a.check("two", "ann", 101)
	denials := decodeAs[admin.Denials](t, a.get(200, "denials"))
	if n := len(denials.Denials); n != 4 || denials.Denials[0].Policy != "two" || !denials.Denials[0].Shadow || denials.Denials[1].Limit != "10/h" || denials.Denials[1].API != "test" {
		t.Errorf("got %+v want 3 denials of api and one of two", denials)
	}
	if got := decodeAs[admin.Denials](t, a.get(200, "denials?policy=two&n=1")).Denials; len(got) != 1 || !strings.HasPrefix(got[0].Key, "h:") {
		t.Errorf("of one policy: got %+v", got)
	}
	hot := decodeAs[admin.HotKeys](t, a.get(200, "hot-keys"))
	if len(hot.Denied) != 2 || hot.Denied[0].Count != 3 || hot.Denied[0].PerSecond < 0.01 || hot.Denied[0].Key != denials.Denials[1].Key {
		t.Errorf("got %+v want the key of 3 denials first", hot.Denied)
	}
	if hash := a.inspect(`{"policy":"api","key":"bob"}`).Policies[0].Hash; hash != hot.Denied[0].Key {
		t.Errorf("inspect has the hash %s, the list %s", hash, hot.Denied[0].Key)
	}
	for _, span := range []string{"1h", "12h"} {
		timeline := decodeAs[admin.Timeline](t, a.get(200, "timeline?span="+span))
		api, two := timeline.Policies["api"], timeline.Policies["two"]
		if len(api.Allowed) != timeline.Slots || sum(api.Allowed) != 10 || sum(api.Denied) != 3 || sum(two.Shadow) != 1 {
			t.Errorf("%s: got %d allowed, %d denied, %d shadow want 10, 3, 1", span, sum(api.Allowed), sum(api.Denied), sum(two.Shadow))
		}
	}
}
