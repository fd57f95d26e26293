package admin_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/admin"
	"github.com/headgate/headgate/internal/root"
)

func (a *api) inspect(body string) admin.Inspected {
	a.t.Helper()
	return decodeAs[admin.Inspected](a.t, a.post(200, "keys/inspect", body))
}

func TestInspectShowsStateUnderEveryPolicy(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.check("api", "bob", 4)
	a.check("two", "bob", 11)
	hold := a.hold("slots", "bob", 2, time.Hour)
	got := a.inspect(`{"key":"bob"}`).Policies
	if len(got) != 3 || got[0].Policy != "api" || got[1].Policy != "slots" || got[2].Policy != "two" {
		t.Fatalf("got %+v want the policies api, slots and two", got)
	}
	if l := got[0].Limits[0]; l.Remaining != 6 || l.Capacity != 10 || !l.Allowed || l.Limit != "10/h" || l.Algorithm != "token_bucket" || l.Window != nil {
		t.Errorf("api: got %+v want 6 of 10 left", l)
	}
	records := got[1].Limits[0].Holds
	if records == nil || records.Open != 1 || records.Units != 2 || len(records.List) != 1 || records.List[0].IDHash != hex.EncodeToString(hold.ID[:12]) {
		t.Errorf("slots: got holds %+v want one of 2 units with the id %x", records, hold.ID[:12])
	}
	if d := time.Until(records.List[0].Deadline); d < 59*time.Minute || d > time.Hour {
		t.Errorf("slots: the hold ends in %v want an hour", d)
	}
	two := got[2]
	if *two.Allowed != true || two.Mode != "shadow" || len(two.Limits) != 2 || two.Limits[0].Remaining != 10 || two.Limits[0].Window == nil {
		t.Errorf("two, after a denial in shadow mode: got %+v", two)
	}
	if w := two.Limits[0].Window; w.End.Sub(w.Begin) != time.Hour || two.Limits[0].ResetAfter > 0 && !two.Limits[0].ResetAt.Equal(w.End) {
		t.Errorf("two: the window is %+v", w)
	}
	if one := a.inspect(`{"key":"bob","policy":"api"}`).Policies; len(one) != 1 || one[0].Hash != got[0].Hash {
		t.Errorf("one policy: got %+v", one)
	}
	if inline := a.inspect(`{"key":"new","limit":"7/1m","algorithm":"fixed_window"}`).Policies; len(inline) != 1 || inline[0].Limits[0].Remaining != 7 {
		t.Errorf("an inline limit: got %+v", inline)
	}
}

func TestInspectSpendsNothing(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.check("api", "bob", 4)
	for range 3 {
		if l := a.inspect(`{"key":"bob","policy":"api"}`).Policies[0].Limits[0]; l.Remaining != 6 {
			t.Errorf("got %d left want 6", l.Remaining)
		}
	}
	if timeline := decodeAs[admin.Timeline](t, a.get(200, "timeline")); sum(timeline.Policies["api"].Allowed) != 1 {
		t.Errorf("the timeline counts %d requests want 1", sum(timeline.Policies["api"].Allowed))
	}
}

func TestInspectPages(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for i := range 5 {
		a.hold("api", "bob", 1, time.Duration(i+1)*time.Hour)
	}
	first := a.inspect(`{"key":"bob","policy":"api","holds":3}`).Policies[0].Limits[0].Holds
	rest := a.inspect(`{"key":"bob","policy":"api","holds":3,"skip":3}`).Policies[0].Limits[0].Holds
	if first.Open != 5 || len(first.List) != 3 || len(rest.List) != 2 || rest.List[0].IDHash == first.List[2].IDHash {
		t.Errorf("got %+v and %+v want 3 and 2 of 5 holds", first, rest)
	}
	if after := a.inspect(`{"key":"bob","after":"api"}`).Policies; len(after) != 2 || after[0].Policy != "slots" {
		t.Errorf("after the policy api: got %+v", after)
	}
}

func TestChangesOfAKey(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.check("api", "bob", 8)
	for _, c := range []struct {
		path, body    string
		before, after int64
	}{
		{"keys/refund", `{"policy":"api","key":"bob","cost":3}`, 2, 5},
		{"keys/debit", `{"policy":"api","key":"bob","cost":9}`, 5, 0},
		{"keys/refund", `{"policy":"api","key":"bob"}`, 0, 0},
		{"keys/reset", `{"policy":"api","key":"bob","reason":"ticket 4711"}`, 0, 10},
		{"keys/debit", `{"policy":"api","key":"bob"}`, 10, 9},
	} {
		got := decodeAs[admin.Changed](t, a.post(200, c.path, c.body))
		if before, after := got.Before.Limits[0].Remaining, got.After.Limits[0].Remaining; before != c.before || after != c.after {
			t.Errorf("%s %s: got %d, then %d left; want %d, then %d", c.path, c.body, before, after, c.before, c.after)
		}
	}
	entries := decodeAs[admin.Audit](t, a.get(200, "audit?n=2"))
	if len(entries.Entries) != 2 || entries.Next != entries.Entries[1].ID {
		t.Fatalf("the audit: got %+v want 2 entries and the next page", entries)
	}
	reset := entries.Entries[1]
	if reset.Action != "reset" || reset.Author != "local" || reset.Policy != "api" || reset.Reason != "ticket 4711" || reset.Instance != "here" ||
		reset.Before != "10/h: 0 of 10 left" || reset.After != "10/h: 10 of 10 left" || !strings.HasPrefix(reset.Key, "h:") {
		t.Errorf("the audit of the reset: got %+v", reset)
	}
	if rest := decodeAs[admin.Audit](t, a.get(200, "audit?before="+entries.Next)); len(rest.Entries) != 3 || rest.Next != "" {
		t.Errorf("the next page: got %d entries want 3", len(rest.Entries))
	}
	if log := a.log.String(); strings.Count(log, `msg="admin change"`) != 5 || strings.Contains(log, "bob") {
		t.Errorf("want five log lines without the key:\n%s", log)
	}
}

func TestCancelByTokenAndByHash(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	byToken, byHash := a.hold("api", "bob", 3, time.Hour), a.hold("api", "bob", 4, time.Hour)
	got := decodeAs[admin.Canceled](t, a.post(200, "holds/cancel", `{"hold":"`+byToken.Token()+`","reason":"stuck"}`))
	if got.Replayed || len(got.After) != 1 || got.After[0].Limits[0].Remaining != 6 {
		t.Errorf("by the token: got %+v want 6 left", got)
	}
	body := fmt.Sprintf(`{"policy":"api","key":"bob","id_hash":"%x"}`, byHash.ID[:12])
	if got = decodeAs[admin.Canceled](t, a.post(200, "holds/cancel", body)); got.Replayed || got.After[0].Limits[0].Remaining != 10 {
		t.Errorf("by the hash: got %+v want 10 left", got)
	}
	if got = decodeAs[admin.Canceled](t, a.post(200, "holds/cancel", body)); !got.Replayed {
		t.Errorf("again: got %+v want replayed", got)
	}
	if n := len(decodeAs[admin.Audit](t, a.get(200, "audit")).Entries); n != 3 {
		t.Errorf("the audit has %d entries want 3", n)
	}
}

// TestCancelRefusesLeases: the process that has a lease goes on spending its units.
func TestCancelRefusesLeases(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	policy := policies["api"]
	policy.Name = "api"
	rule := root.Rules(policy)[0]
	op := headgate.LeaseOp{Bound: must(a.store.Bind(rule)), Key: "bob", ID: headgate.NewHoldID(), Want: 2, Max: 5, TTL: time.Minute}
	if _, err := a.store.ApplyLease(t.Context(), headgate.StoreClock, op); err != nil {
		t.Fatal(err)
	}
	leases := a.inspect(`{"policy":"api","key":"bob"}`).Policies[0].Limits[0].Leases
	if leases.Open != 1 || leases.Units != 2 || len(leases.List) != 1 {
		t.Fatalf("got leases %+v want one of 2 units", leases)
	}
	if text := a.post(400, "holds/cancel", `{"policy":"api","key":"bob","id_hash":"`+leases.List[0].IDHash+`"}`); !strings.Contains(text, "lease") {
		t.Errorf("got %s want that the id is of a lease", text)
	}
}

func TestInvalidBodies(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, c := range []struct{ path, body, field, detail string }{
		{"keys/inspect", ``, "", "the body is empty; send a JSON object"},
		{"keys/inspect", `[]`, "", "the body must be an object, not an array"},
		{"keys/inspect", `{`, "", "the body has malformed JSON at byte 1"},
		{"keys/inspect", `{"key":"a"} {}`, "", "the body has unexpected data after the object, at byte 11"},
		{"keys/inspect", `{"key":"a","key":"b"}`, "", "the body has a field twice, at byte 10"},
		{"keys/inspect", `{"Key":"a"}`, "Key", `the request has an unknown field "Key"; did you mean "key"?`},
		{"keys/inspect", `{"key":7}`, "key", `field "key" must be a string, not a number`},
		{"keys/inspect", `{"key":null}`, "key", `field "key" must not be null; omit it`},
		{"keys/inspect", "{\"key\":\"\xff\"}", "", "the body has malformed JSON at byte 6"},
		{"keys/inspect", `{"policy":"api"}`, "key", `field "key" is required (it may be an empty string)`},
		{"keys/inspect", `{"key":"a","policy":"api","limit":"5/1m"}`, "limit", `field "limit" is not allowed next to policy, which has its own limits; send one of them`},
		{"keys/inspect", `{"key":"a","algorithm":"gcra"}`, "algorithm", `field "algorithm" is allowed only with limit`},
		{"keys/inspect", `{"key":"a","holds":1001}`, "holds", `field "holds" is 1001; must be 0 to 1000`},
		{"keys/inspect", `{"key":"a","skip":-1}`, "skip", `field "skip" is -1; must be 0 to 100000`},
		{"keys/inspect", `{"key":"a","holds":1.5}`, "holds", `field "holds" is not valid; must be a whole number`},
		{"keys/reset", `{"key":"a"}`, "policy", `field "policy" or "limit" is required`},
		{"keys/reset", `{"key":"a","policy":"api","cost":1}`, "cost", `the request has an unknown field "cost"; must be key, policy, limit, algorithm, reason`},
		{"keys/reset", `{"key":"a","policy":"api","reason":"` + strings.Repeat("x", 257) + `"}`, "reason", `field "reason" has 257 bytes; must be at most 256`},
		{"keys/debit", `{"key":"a","policy":"api","cost":-1}`, "cost", `field "cost" is -1; must be 0 to 9007199254740991`},
		{"keys/debit", `{"key":"a","policy":"api","cost":9007199254740992}`, "cost", `field "cost" is 9007199254740992; must be 0 to 9007199254740991`},
		{"keys/refund", `{"key":"a","limit":"5/0s"}`, "limit", ""},
		{"holds/cancel", `{"hold":"x"}`, "hold", ""},
		{"holds/cancel", `{"hold":"x","key":"a"}`, "hold", `field "hold" contains the policy, the key and the id; send only reason next to it`},
		{"holds/cancel", `{"key":"a","policy":"api","id_hash":"12"}`, "id_hash", `field "id_hash" must have 24 hexadecimal digits, as inspect returns them`},
		{"overrides/set", `{"overrides":[]}`, "overrides", `field "overrides" has 0 elements; must be 1 to 1000`},
		{"overrides/set", `{"overrides":[{"policy":"api","target":"key:a","limit":["1/s"]}]}`, "overrides[0].limit", `the request has an unknown field "limit"; did you mean "limits"?`},
		{"overrides/set", `{"overrides":[{"policy":"api","target":"acme","limits":["1/s"]}]}`, "overrides[0].target", ""},
		{"overrides/set", `{"overrides":[{"policy":"api","target":"key:a","limits":["1/x"]}]}`, "overrides[0].limits", ""},
		{"overrides/set", `{"overrides":[{"policy":"api","target":"key:a"}]}`, "overrides[0].limits", `field "overrides[0].limits": is empty; must be one or more limits, such as 10/m, or unlimited`},
		{"overrides/set", `{"overrides":[{"policy":"api","target":"key:a","limits":["1/s"],"ttl":"soon"}]}`, "overrides[0].ttl", `field "overrides[0].ttl" is "soon"; must be a duration above 0, such as 30m or 2h`},
		{"overrides/set", `{"overrides":[{"policy":"api","target":"key:a","limits":["1/s"],"ttl":"1h","until":"2030-01-01T00:00:00Z"}]}`, "overrides[0].ttl", `field "overrides[0].ttl" is not allowed next to until; send one of them`},
		{"overrides/set", `{"overrides":[{"policy":"api","target":"key:a","limits":["1/s"],"until":"2000-01-01T00:00:00Z"}]}`, "overrides[0].until", ""},
		{"overrides/set", `{"overrides":[{"policy":"api","target":"key:a","limits":["1/s"],"until":"tomorrow"}]}`, "overrides[0].until", `field "overrides[0].until" is not valid; must be a time such as 2026-11-28T12:00:00Z`},
		{"overrides/remove", `{"overrides":[{"policy":"api"}]}`, "overrides[0]", `field "overrides[0]" requires policy and target`},
	} {
		got := decodeAs[struct{ Detail, Field string }](t, a.post(400, c.path, c.body))
		if got.Field != c.field || c.detail != "" && got.Detail != c.detail || got.Detail == "" {
			t.Errorf("%s %.80s: got field %q, %q want field %q, %q", c.path, c.body, got.Field, got.Detail, c.field, c.detail)
		}
	}
}

func sum(all []uint32) (n uint32) {
	for _, one := range all {
		n += one
	}
	return n
}
