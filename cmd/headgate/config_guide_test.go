package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// Two limits with token_bucket_interval would share buckets in the layout of the Redis
// guides. The check that headgate config check runs refuses them, with their line.
func TestConfigCheckRefusesSharedGuideBuckets(t *testing.T) {
	t.Parallel()
	const layout = "store: redis://127.0.0.1:1?layout=guide\npolicies:\n"
	for name, c := range map[string]struct{ text, want string }{
		"two policies": {
			"  login: {algorithm: token_bucket_interval, limits: [5/1h]}\n  pages: {algorithm: token_bucket_interval, limits: [1000/1h]}\n",
			":4:22: policies.pages.algorithm: ",
		},
		"two limits":        {"  login: {algorithm: token_bucket_interval, limits: [100/1h, 10/1m]}\n", ":3:22: policies.login.algorithm: "},
		"another algorithm": {"  login: {algorithm: token_bucket_interval, limits: [5/1h]}\n  pages: {limits: [100/1h, 10/1m]}\n", ""},
	} {
		file := filepath.Join(t.TempDir(), "headgate.yaml")
		if err := os.WriteFile(file, []byte(layout+c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		from := config.Sources{Path: file, CheckStore: checkStoreURL}
		loaded, err := from.Load()
		if err != nil {
			t.Fatal(err)
		}
		switch err := checkPolicies(loaded); {
		case c.want == "" && err != nil:
			t.Errorf("%s: got error %v want none", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), file+c.want)):
			t.Errorf("%s: got error %v want one at %s", name, err, c.want)
		}
	}
}
