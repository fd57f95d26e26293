package config_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// load loads a file with the text.
func load(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	parsed, err := config.Parse("headgate.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return new(config.Sources).Over(parsed)
}

func TestLeaseForms(t *testing.T) {
	t.Parallel()
	usual := headgate.LeaseSettings{Share: 10, TTL: 250 * time.Millisecond}
	for text, want := range map[string]headgate.LeaseSettings{
		"": {}, ", lease: off": {}, `, lease: "off"`: {}, ", lease: auto": usual, ", lease: {}": usual,
		", lease: {share: 50%}":             {Share: 50, TTL: usual.TTL},
		", lease: {ttl: 1m}":                {Share: 10, TTL: time.Minute},
		", lease: {share: 1%, ttl: 10ms}":   {Share: 1, TTL: 10 * time.Millisecond},
		`, lease: {share: "7%", ttl: 1.5s}`: {Share: 7, TTL: 1500 * time.Millisecond},
	} {
		c, err := load(t, "store: redis://127.0.0.1\npolicies: {a: {limits: [1000/s]"+text+"}}")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := c.Engine().Policies["a"].Lease; got != want {
			t.Errorf("%q: got %+v want %+v", text, got, want)
		}
		var printed bytes.Buffer
		if err := c.Print(&printed); err != nil {
			t.Fatal(err)
		}
		again, err := load(t, printed.String())
		if err != nil || again.Engine().Policies["a"].Lease != want {
			t.Errorf("%q: printed as\n%s, which is read as %+v, error %v, want %+v", text, printed.String(), again, err, want)
		}
	}
}

// A lease that the store does not have is an error at its position.
func TestLeaseOfStoreWithoutLeases(t *testing.T) {
	t.Parallel()
	const policy = "\npolicies:\n  a:\n    limits: [1000/s]\n    lease: auto\n"
	for text, want := range map[string]string{
		"store: redis://127.0.0.1?layout=guide" + policy + "    algorithm: token_bucket_interval\n": `headgate.yaml:5:12: policies.a.lease: ` +
			`token_bucket_interval has no leases in layout=guide; remove lease, or remove layout=guide from the store`,
		"store: redis://127.0.0.1?layout=guide" + policy: "",
		"store: redis+cluster://127.0.0.1" + policy:      "",
		"store: memcached://127.0.0.1" + policy:          "",
	} {
		_, err := load(t, text)
		if got := errorText(err); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A lease without an effect is accepted with a warning.
func TestLeaseWithoutEffect(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"policies: {a: {limits: [1000/s], lease: auto}, b: {limits: [9/s], lease: auto}, c: {limits: [9/s]}}": `lease has no effect with the store ` +
			`memory://, which decides in memory without leases (policies "a", "b")`,
		"store: redis://127.0.0.1\npolicies: {a: {limits: [5/15m, 9/1h], lease: auto}}": `policies.a.lease has no effect, because 10% of the capacity 9 ` +
			`is less than one unit; remove it`,
		"store: redis://127.0.0.1\npolicies: {a: {limits: [500/100ms], algorithm: sliding_log, lease: auto}}": `policies.a.lease has no effect, ` +
			`because the period 100ms of a sliding_log is shorter than the ttl 250ms; remove it`,
		"store: redis://127.0.0.1\npolicies: {a: {limits: [5/15m], lease: auto, overrides: {k: [1000/1m]}}}": "",
		"store: redis://127.0.0.1\npolicies: {a: {limits: [5/15m, 500/1h], lease: auto}}":                    "",
	} {
		c, err := load(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Warnings, "\n"); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// A rule of Envoy's is not leased if the store counts hits above the limit.
func TestCheckLeaseOfEnvoyRules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"store: redis://127.0.0.1": "",
		"store: redis://127.0.0.1\nenvoy: {charge: each}": "a rule cannot be leased with envoy.charge: each, because the store counts the hits " +
			"above the limit; remove lease, or set envoy.charge: all_or_none",
		"store: memcached://127.0.0.1": "",
		"{}":                           "warning: lease has no effect with the store memory://, which decides in memory without leases",
	} {
		c, err := load(t, text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.CheckLease(headgate.FixedWindow)
		if got != "" {
			got = "warning: " + got
		}
		if got += errorText(err); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}
