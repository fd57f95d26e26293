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

// A warning reports each listener that other machines can use without credentials.
func TestOpenListenersAreReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags map[string]string
		want  []string // beginnings of the warnings
	}{
		{nil, nil},
		{map[string]string{"http.addr": "off", "resp.addr": "off"}, nil},
		{map[string]string{"http.addr": "[::1]:8080", "resp.addr": "unix:/run/headgate.sock"}, nil},
		{map[string]string{"http.addr": "0.0.0.0:8080"}, []string{"http.addr 0.0.0.0:8080 "}},
		{map[string]string{"http.addr": ":8080", "http.client_ca": "ca.crt"}, nil},
		{map[string]string{"http.addr": "10.0.0.7:8080", "http.tls_cert": "a", "http.tls_key": "b"}, []string{"http.addr 10.0.0.7:8080 "}},
		{map[string]string{"http.addr": ":8080", "http.token": "t"}, nil},
		{map[string]string{"http.addr": ":8080", "http.insecure": "true"}, nil},
		{map[string]string{"resp.addr": "0.0.0.0:6380", "resp.insecure": "true"}, nil},
		{map[string]string{"resp.addr": "0.0.0.0:6380"}, []string{"resp.addr 0.0.0.0:6380 "}},
		{map[string]string{"resp.addr": "0.0.0.0:6380", "resp.password": "p"}, nil},
		{map[string]string{"resp.addr": "0.0.0.0:6380", "resp.client_ca": "ca.crt"}, nil},
		{map[string]string{"http.addr": "[::]:1", "resp.addr": "headgate.internal:2"}, []string{"http.addr [::]:1 ", "resp.addr headgate.internal:2 "}},
	} {
		from := config.Sources{Flags: c.flags}
		loaded, err := from.Load()
		if err != nil {
			t.Fatal(err)
		}
		if len(loaded.Warnings) != len(c.want) {
			t.Errorf("%v: got %q want %d warnings", c.flags, loaded.Warnings, len(c.want))
			continue
		}
		for i, w := range loaded.Warnings {
			if !strings.HasPrefix(w, c.want[i]) || !strings.Contains(w, "reset any key") {
				t.Errorf("%v: got %q want a warning about %s", c.flags, w, c.want[i])
			}
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

// A route whose policies all have a key that clients choose is reported.
func TestHeaderKeysAreReported(t *testing.T) {
	t.Parallel()
	const policies = `policies:
  key: {limits: 5/s, key: "header:X-API-Key, ip"}
  only: {limits: 5/s, key: "header:X-API-Key"}
  joined: {limits: 5/s, key: "ip+header:X-Tenant"}
  address: {limits: 5/s}
  network: {limits: 5/s, key: ip/48}
  fallback: {limits: 5/s, key: "ip, header:X-API-Key"}
  path: {limits: 5/s, key: path}
`
	for routed, want := range map[string]string{
		"key": `policy "key" with the key header:x-api-key, ip`, "only": `policy "only" with the key header:x-api-key`,
		"joined, key": `policy "joined" with the key ip+header:x-tenant`,
		"":            "", "address": "", "key, address": "", "network, key": "", "fallback": "", "path": "", "only, fallback": "",
	} {
		path := t.TempDir() + "/f.yaml"
		replace(t, path, policies+"routes:\n  - {match: {path: /a}, policies: [address]}\n  - {policies: ["+routed+"]}\n")
		from := config.Sources{Path: path}
		c, err := from.Load()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case want == "" && len(c.Warnings) > 0:
			t.Errorf("%q: got %q want no warning", routed, c.Warnings)
		case want != "" && (len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "routes[1]: ") || !strings.Contains(c.Warnings[0], want+": unless")):
			t.Errorf("%q: got %q want one about routes[1] and %s", routed, c.Warnings, want)
		}
	}
}
