package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// TestExplainReadsOverridesInStore sets overrides at a running service. explain, another
// process, reads them from the store.
func TestExplainReadsOverridesInStore(t *testing.T) {
	t.Parallel()
	store := "redis://" + testserver.Redis(t).Addr()
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	text := "policies:\n  api: {limits: [100/1h], overrides: {'key:file': [9/1h]}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, 2, "--config", file, "--store", store, "--http-addr", "127.0.0.1:0", "--resp-addr", "off", "--grpc-addr", "off", "--admin-addr", "127.0.0.1:0")
	for _, override := range [][]string{{"key:acme", "7/1h"}, {"key:bad", "block"}} {
		set := exec.Command("headgate", "override", "set", "api", override[0], override[1], "--reason", "test", "--admin-addr", p.addrs["admin"])
		if out, err := set.CombinedOutput(); err != nil {
			t.Fatalf("override set: %v\n%s", err, out)
		}
	}
	for _, c := range []struct {
		key, limit, overriddenBy string
		inStore, allowed         bool
	}{
		{"acme", "7/h", "key:acme", true, true},
		{"bad", "0/s", "key:bad", true, false},
		{"file", "9/h", "key:file", false, true},
		{"other", "100/h", "", false, true},
	} {
		out, err := exec.Command("headgate", "explain", "--config", file, "--store", store, "--policy", "api", "--key", c.key, "--json").Output()
		var got explanation
		if err != nil || json.Unmarshal(out, &got) != nil || len(got.Policies) != 1 || len(got.Policies[0].Limits) != 1 {
			t.Fatalf("explain %s: %v\n%s", c.key, err, out)
		}
		policy := got.Policies[0]
		if policy.Limits[0].Limit != c.limit || policy.OverriddenBy != c.overriddenBy || policy.OverrideInStore != c.inStore || got.Allowed != c.allowed {
			t.Errorf("explain %s: got %s\nwant limit %s, override %q, in the store %v, allowed %v", c.key, out, c.limit, c.overriddenBy, c.inStore, c.allowed)
		}
	}
}
