package config_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// An admin listener on a non-loopback address requires a token.
func TestPublicAdminRequiresToken(t *testing.T) {
	t.Parallel()
	for addr, public := range map[string]bool{
		"127.0.0.1:6070": false, "127.9.9.9:0": false, "[::1]:6070": false, "localhost:6070": false, "[::ffff:127.0.0.1]:1": false, "off": false,
		":6070": true, "0.0.0.0:6070": true, "[::]:6070": true, "10.0.0.1:6070": true, "localhost.example.com:1": true, "127.0.0.1.nip.io:1": true,
	} {
		from := config.Sources{Flags: map[string]string{"admin.addr": addr}}
		_, err := from.Load()
		if refused := err != nil; refused != public {
			t.Errorf("%s: %v, want it refused: %v", addr, err, public)
		}
		if err != nil && !strings.Contains(err.Error(), "--admin-token") {
			t.Errorf("%s: the error has no advice: %v", addr, err)
		}
		from.Flags["admin.token"] = "t"
		if _, err := from.Load(); err != nil {
			t.Errorf("%s with a token: %v", addr, err)
		}
	}
}

func TestPrintWithoutSecrets(t *testing.T) {
	t.Parallel()
	from := config.Sources{Flags: map[string]string{"admin.token": "hunter2", "log.hash_secret": "hunter3", "resp.password": "hunter4"}}
	c, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := c.Print(&text); err != nil || strings.Contains(text.String(), "hunter") || !strings.Contains(text.String(), "token: '***'") {
		t.Errorf("printed, error %v:\n%s", err, text.String())
	}
}
