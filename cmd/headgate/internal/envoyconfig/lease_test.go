package envoyconfig_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

func TestLease(t *testing.T) {
	t.Parallel()
	usual := headgate.LeaseSettings{Share: 10, TTL: 250 * time.Millisecond}
	for text, want := range map[string]headgate.LeaseSettings{
		"unit: day, requests_per_unit: 100":                                         {},
		"unit: day, requests_per_unit: 100, lease: off":                             {},
		`unit: day, requests_per_unit: 100, lease: "off"`:                           {},
		"unit: day, requests_per_unit: 100, lease: auto":                            usual,
		"limits: [100/1m, 1000/1h], lease: {}":                                      usual,
		"limits: [100/1m, 1000/1h], lease: {share: 50%, ttl: 10ms}":                 {Share: 50, TTL: 10 * time.Millisecond},
		"limits: 100/1m, algorithm: sliding_log, lease: {share: 1%}":                {Share: 1, TTL: usual.TTL},
		"limits: 100/1m, algorithm: sliding_window, on_store_error: open, lease: ~": {},
	} {
		config := mustParse(t, "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {"+text+"}\n")
		for _, l := range config.Rules()[0].Limits {
			if l.Inline.Lease != want {
				t.Errorf("%s: got %+v want %+v", text, l.Inline.Lease, want)
			}
		}
	}
}

func TestLeaseRejected(t *testing.T) {
	t.Parallel()
	check := func(a headgate.Algorithm) (string, error) {
		if a == headgate.LeakyBucket {
			return "", errors.New("it has no leases")
		}
		return "it has no effect", nil
	}
	for lease, want := range map[string]string{
		"on":                            "test.yaml: invalid lease 'on'; must be auto, off, or a mapping with the keys share and ttl",
		"{share: 10}":                   `test.yaml: "10" is not the share of a lease; must be a whole percentage from 1% to 50%, such as 10%`,
		"{share: 51%}":                  `test.yaml: "51%" is not the share of a lease; must be a whole percentage from 1% to 50%, such as 10%`,
		"{ttl: 9ms}":                    "test.yaml: invalid ttl '9ms'; must be 10ms to 1m, such as 250ms",
		"{ttl: 0s}":                     "test.yaml: invalid ttl '0s'; must be 10ms to 1m, such as 250ms",
		"{ttl: 61s}":                    "test.yaml: invalid ttl '61s'; must be 10ms to 1m, such as 250ms",
		"{ttl: 100}":                    "test.yaml: invalid ttl '100'; must be 10ms to 1m, such as 250ms",
		"{shar: 1%}":                    "test.yaml: config error, unknown key 'shar'",
		"auto, algorithm: leaky_bucket": "test.yaml: it has no leases",
		"auto":                          "",
	} {
		config, err := envoyconfig.Parse([]envoyconfig.File{{
			Name: "test.yaml", Content: []byte("domain: d\ndescriptors:\n  - key: k\n    rate_limit: {limits: 100/1m, lease: " + lease + "}\n"),
		}}, &envoyconfig.ParseOptions{CheckLease: check})
		switch {
		case err == nil && want == "":
			if len(config.Warnings()) != 1 || config.Warnings()[0].Message != "it has no effect" {
				t.Errorf("lease: %s: got warnings %v", lease, config.Warnings())
			}
		case err == nil || err.Error() != want:
			t.Errorf("lease: %s:\n got %v\nwant %s", lease, err, want)
		}
	}
}
