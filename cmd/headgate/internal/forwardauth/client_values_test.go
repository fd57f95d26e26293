package forwardauth_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/memstore"
)

// TestInputLimitsDoNotApply: max_key_bytes and max_checks bound what clients of other
// APIs send. The service composes the keys and the checks here, so a long header field,
// or two policies on one route, are no error.
func TestInputLimitsDoNotApply(t *testing.T) {
	t.Parallel()
	opts := decidedBy(proxied.TrustedProxies)
	opts.MaxKeyBytes, opts.MaxChecks = 5, 1
	e := must(engine.New(memstore.New(nil), opts))
	h := must(forwardauth.New(e, &proxied.Options))
	for _, key := range []string{"key of 15 bytes", strings.Repeat("k", 8<<10), "caf\xe9\x00\xff"} {
		for i, want := range []int{200, 200, 429} {
			resp := ask(h, forwardauth.Path, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/api/x", "X-Forwarded-For", "203.0.113.9", "X-API-Key", key)
			if resp.StatusCode != want {
				t.Errorf("%.20q, request %d: got %d want %d", key, i+1, resp.StatusCode, want)
			}
		}
	}
}
