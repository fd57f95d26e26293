package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// A reload switches leases on and off. Every allowed unit is spent in the store once.
func TestReloadSwitchesLeases(t *testing.T) {
	t.Parallel()
	const off, on, other = "lease: off", "lease: {ttl: 2s}", "lease: {share: 1%, ttl: 1s}"
	s := startLeasing(t, testserver.Redis(t), "  p: {limits: [100000/366d], "+off+"}\n", "")
	spent := int64(0)
	ask := func() decided {
		spent++
		return s.check("p", "k")
	}
	for range 20 {
		if d := ask(); d.Leased || !d.Allowed {
			t.Fatalf("without leases: got %+v", d)
		}
	}
	for _, change := range [][2]string{{off, on}, {on, other}, {other, off}, {off, on}, {on, off}} {
		s.replace(change[0], change[1])
		if change[1] != off {
			eventually(t, "a leased decision after "+change[1], func() bool { return ask().Leased })
			continue
		}
		eventually(t, "no lease", func() bool { ask(); return s.metric("headgate_lease_keys") == 0 })
		eventually(t, "that all units are returned", func() bool {
			left := s.peek("p", "k").Remaining
			if left > 100000-spent {
				t.Fatalf("%d units remain after %d were spent", left, spent)
			}
			failed := s.metric("headgate_lease_store_calls_failed_total")
			return left == 100000-spent || failed > 0 // a call that failed can lose units
		})
		if d := ask(); d.Leased {
			t.Errorf("after lease: off, got %+v, want a decision of the store", d)
		}
	}
}

// The Redis-compatible endpoint returns the field leased as the HTTP API does. A lease
// lasts longer than redis-cli takes.
func TestLeasedOverRESP(t *testing.T) {
	t.Parallel()
	s := startLeasing(t, testserver.Redis(t), "  p: {limits: [100000/366d], lease: {ttl: 1m}}\n", "")
	_, port, err := net.SplitHostPort(s.addrs["resp"])
	if err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) (reply string) {
		text, err := exec.Command("redis-cli", append([]string{"-3", "--json", "-p", port, "HG.CHECK"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli: %v\n%s", err, text)
		}
		return string(text)
	}
	if reply := ask("p", "k"); strings.Contains(reply, "leased") {
		t.Errorf("a decision of the store: got %s, want no field leased", reply)
	}
	eventually(t, "a leased decision", func() bool { return s.check("p", "k").Leased })
	eventually(t, "the field leased", func() bool {
		s.check("p", "k")
		return strings.Contains(ask("p", "k"), `"degraded":false,"leased":true}`)
	})
	others := 0
	eventually(t, "the field leased in results", func() bool {
		s.check("p", "k")
		others++ // a key with several requests would be leased
		reply := ask("p", "k", "1", "p", fmt.Sprint("other", others), "1")
		return strings.Contains(reply, `"denied_by":[],"leased":true}`) && strings.Contains(reply, `"denied_by":[]}`)
	})
}

// The failure mode of the policy decides when a lease has ended.
func TestFailureModesOfLeasedPolicies(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	s := startLeasingOn(t, "redis://"+redis.Addr(), "500ms", `  closed: {limits: [10000/366d], lease: {ttl: 3s}, on_store_error: closed}
  open: {limits: [10000/366d], lease: {ttl: 3s}, on_store_error: open}
  local: {limits: [10000/366d], lease: {ttl: 3s}, on_store_error: local}
`, "")
	leasedAll := func() {
		t.Helper()
		for _, policy := range []string{"closed", "open", "local"} {
			eventually(t, "a leased decision of "+policy, func() bool { return s.check(policy, "k").Leased })
		}
	}
	leasedAll()
	redis.Stop()
	defer redis.Continue()
	eventually(t, "503", func() bool { return s.check("closed", "k").Status == http.StatusServiceUnavailable })
	for _, policy := range []string{"open", "local"} {
		eventually(t, "a degraded decision of "+policy, func() bool { d := s.check(policy, "k"); return d.Allowed && d.Degraded && !d.Leased })
	}
	redis.Continue()
	leasedAll()
}

// A leased policy in shadow mode allows every request, and counts its denials.
func TestLeasedShadowPolicy(t *testing.T) {
	t.Parallel()
	const limit = "limits: [100/366d], lease: {share: 50%, ttl: 1m}"
	s := startLeasing(t, testserver.Redis(t), "  shadow: {"+limit+", shadow: true}\n  part: {"+limit+", enforce: 50%}\n",
		"  - {key: shadow, shadow_mode: true, rate_limit: {"+limit+"}}\n")
	leased := false
	for range 300 {
		d := s.check("shadow", "k")
		leased = leased || d.Leased
		if !d.Allowed || d.Status != http.StatusOK {
			t.Fatalf("in shadow mode: got %+v, want allowed", d)
		}
		if allowed, err := s.shouldLimit(t.Context(), "shadow", "v"); !allowed || err != nil {
			t.Fatalf("a rule in shadow mode: got %v, %v, want allowed", allowed, err)
		}
	}
	if !leased {
		t.Error("no decision in shadow mode was made in memory")
	}
	if got := s.metric(`headgate_decisions_total{api="http",outcome="shadow",policy="shadow"}`); got < 200 {
		t.Errorf("%v requests would have been denied, want at least 200 of 300", got)
	}
	denied, enforced := 0, map[bool]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		before := denied
		for range 150 {
			if d := s.check("part", key); !d.Allowed {
				denied++
			}
		}
		enforced[denied > before] = true
	}
	if len(enforced) != 2 {
		t.Errorf("%d requests were denied; want denials of some keys only", denied)
	}
}

// An override with a large limit is leased, although the limit of the policy is too
// small.
func TestLeasedOverrides(t *testing.T) {
	t.Parallel()
	s := startLeasing(t, testserver.Redis(t), `  p: {limits: [5/366d], lease: {ttl: 1m}, overrides: {big: [100000/366d], none: 0/s, all: unlimited}}
  both: {limits: [5/366d, 100000/366d], lease: {ttl: 1m}}
`, "")
	eventually(t, "a leased decision of the override", func() bool { return s.check("p", "big").Leased })
	for _, policy := range []string{"p", "both"} {
		for i := range 20 {
			if d := s.check(policy, "small"); d.Allowed != (i < 5) || policy == "p" && d.Leased {
				t.Errorf("policy %s, request %d: got %+v, want 5 allowed", policy, i+1, d)
			}
		}
	}
	if d := s.peek("both", "small"); d.Remaining != 0 {
		t.Errorf("two limits: %d units remain, want 0", d.Remaining)
	}
	for range 10 {
		if s.check("p", "none").Allowed || !s.check("p", "all").Allowed {
			t.Error("0/s or unlimited: got another decision")
		}
	}
}
