package config_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Webhooks require an encrypted URL and a secret. Errors and printed values contain
// neither.
func TestEventSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags map[string]string
		want  string // part of the error; empty if there is none
	}{
		{map[string]string{"events.webhook": "https://a.example/token", "events.webhook_secret": hookSecret}, ""},
		{map[string]string{"events.webhook": "http://127.0.0.1:8/token", "events.webhook_secret": hookSecret}, ""},
		{map[string]string{"events.webhook": "http://a.example/token", "events.webhook_secret": hookSecret}, "not encrypted"},
		{map[string]string{"events.webhook": "a.example/token", "events.webhook_secret": hookSecret}, "not valid"},
		{map[string]string{"events.webhook": "https://a.example/token"}, "require a secret"},
		{map[string]string{"events.webhook": "https://a.example/token", "events.webhook_secret": "hunter2"}, "whsec_"},
		{map[string]string{
			"events.webhook": "https://a.example/token", "events.webhook_secret": hookSecret, "events.webhook_old_secret": "hunter2",
		}, "whsec_"},
	} {
		from := config.Sources{Flags: c.flags}
		loaded, err := from.Load()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v want %q", c.flags, err, c.want)
			continue
		}
		text := ""
		if err != nil {
			text = err.Error()
		} else {
			var printed strings.Builder
			if err := loaded.Print(&printed); err != nil {
				t.Fatal(err)
			}
			text = printed.String()
		}
		if strings.Contains(text, "a.example") || strings.Contains(text, "hunter2") || strings.Contains(text, "MfKQ") {
			t.Errorf("%v: the output contains a secret:\n%s", c.flags, text)
		}
	}
	secretOnly := config.Sources{Flags: map[string]string{"events.webhook_secret": hookSecret}}
	if c, err := secretOnly.Load(); err != nil || !strings.Contains(strings.Join(c.Warnings, "\n"), "no effect") {
		t.Errorf("a secret without a webhook: got %v, error %v want a warning", c.Warnings, err)
	}
	shared := config.Sources{Flags: map[string]string{
		"events.webhook": "https://a.example", "events.webhook_secret": hookSecret, "store": "redis://127.0.0.1",
	}}
	if c, err := shared.Load(); err != nil || !strings.Contains(strings.Join(c.Warnings, "\n"), "log.hash_secret") {
		t.Errorf("hashes without a secret: got %v, error %v want a warning", c.Warnings, err)
	}
}

// The settings of a ban must fit together.
func TestBanSettings(t *testing.T) {
	t.Parallel()
	for ban, want := range map[string]string{
		"{after: 20}":                       "",
		"{after: 20, for: 2h, max: 2h}":     "",
		"{for: 1m}":                         "after is required",
		"{after: 0}":                        "out of range",
		"{after: 20, for: 2h}":              "max of the ban is 1h0m0s; must be 2h0m0s to 2160h0m0s",
		"{after: 20, max: 48h}":             "forget of the ban is 24h0m0s; must be 48h0m0s to",
		"{after: 20, within: 10ms}":         "out of range",
		"{after: 20, until: 1h}":            "unknown key",
		"{after: 20, for: 1500us, max: 1m}": "out of range",
	} {
		_, err := config.Parse("f.yaml", []byte("policies: {p: {limits: 5/s, ban: "+ban+"}}"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v want %q", ban, err, want)
		}
	}
}
