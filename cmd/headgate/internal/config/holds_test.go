package config_test

import (
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
