package config_test

import (
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// Settings for holds of an algorithm without holds are an error at their position.
func TestHoldsOfAlgorithmWithoutHolds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"limits: [5/1m queue 3], algorithm: leaky_bucket, holds: {over: clip}": "headgate.yaml:2:63: policies.a.holds: " +
			"leaky_bucket has no holds; remove holds, or use another algorithm such as token_bucket",
		"limits: [5/1m queue 3], algorithm: leaky_bucket":             "",
		"limits: [0/s], algorithm: leaky_bucket, holds: {over: clip}": "",
		"limits: [5/1m, 3 concurrent], holds: {over: clip}":           "",
	} {
		_, err := config.Parse("headgate.yaml", []byte("policies:\n  a: {"+text+"}\n"))
		if got := errorText(err); got != want {
			t.Errorf("%s: got %q want %q", text, got, want)
		}
	}
}

// A maximum of open holds that the store does not permit is an error at its position.
func TestMaxOpenAboveMaximumOfStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	replace(t, path, "store: memcached://h\npolicies:\n  a: {limits: [5/1m], holds: {max_open: 10001}}\n")
	for most, want := range map[int]string{
		10_000: path + ":3:41: policies.a.holds.max_open: 10001 is above the maximum of the store, 10000; reduce it, or use another store",
		10_001: "",
	} {
		from := config.Sources{Path: path, MaxOpenHolds: func(config.StoreURL) int { return most }}
		_, err := from.Load()
		if got := errorText(err); got != want {
			t.Errorf("maximum %d: got %q want %q", most, got, want)
		}
	}
}
