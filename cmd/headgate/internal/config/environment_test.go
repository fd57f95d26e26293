package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// A misspelled variable is refused like a misspelled key. Variables that Kubernetes
// sets never prevent a start.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ variable, refused, warning string }{
		{"HEADGATE_HTTP_ADDR=127.0.0.1:1", "", ""},
		{"HEADGATE_CONFIG=f.yaml", "", ""},
		{"HEADGATE=x", "", ""},
		{"HEADGATEWAY_X=x", "", ""},
		{"headgate_http_adr=x", "", ""},
		{"PATH=/bin", "", ""},
		{"HEADGATE_HTTP_ADR=127.0.0.1:1", "HEADGATE_HTTP_ADR: unknown setting; did you mean HEADGATE_HTTP_ADDR?", ""},
		{"HEADGATE_HTTPADDR=127.0.0.1:1", "HEADGATE_HTTPADDR: unknown setting; did you mean HEADGATE_HTTP_ADDR?", ""},
		{"HEADGATE_ON_STORE_EROR=open", "did you mean HEADGATE_ON_STORE_ERROR?", ""},
		{"HEADGATE_CONFG=x", "did you mean HEADGATE_CONFIG?", ""},
		{"HEADGATE_PASSWORD=secret", "did you mean HEADGATE_RESP_PASSWORD?", ""},
		{"HEADGATE_http_addr=x", "did you mean HEADGATE_HTTP_ADDR?", ""},
		{"HEADGATE_POLICIES=x", "HEADGATE_POLICIES: unknown setting; headgate config print lists all settings", ""},
		{"HEADGATE_=x", "HEADGATE_: unknown setting", ""},
		{"HEADGATE_HTTP_ADR=", "", ""},
		{"HEADGATE_" + strings.Repeat("X", 9999) + "=x", "X…: unknown setting", ""},
		{"HEADGATE_SERVICE_HOST=10.0.0.1", "", ""},
		{"HEADGATE_SERVICE_PORT=8080", "", ""},
		{"HEADGATE_SERVICE_PORT_HTTP=8080", "", ""},
		{"HEADGATE_PORT=tcp://10.0.0.1:8080", "", ""},
		{"HEADGATE_PORT_8080_TCP=tcp://10.0.0.1:8080", "", ""},
		{"HEADGATE_PORT_8080_TCP_PROTO=tcp", "", ""},
		{"HEADGATE_PORT_8080_TCP_PORT=8080", "", ""},
		{"HEADGATE_PORT_8080_TCP_ADDR=10.0.0.1", "", ""},
		{"HEADGATE_PORT_53_UDP=udp://10.0.0.1:53", "", ""},
		{"HEADGATE_GRPC_SERVICE_HOST=10.0.0.1", "", ""},
		{"HEADGATE_GRPC_PORT_8081_TCP_ADDR=10.0.0.1", "", ""},
		{"HEADGATE_REDIS_PORT=tcp://10.0.0.1:6379", "", ""},
		{"HEADGATE_PORT_8080_TCP_START=tcp://172.17.0.2:8080", "", ""},
		{"HEADGATE_PORT_8080_TCP_PORT_END=8081", "", ""},
		{"HEADGATE_REDIS_NAME=/web/headgate-redis", "", ""},
		{"HEADGATE_REDIS_ENV_REDIS_VERSION=7.2", "", ""},
		{"HEADGATE_NAME=x", "HEADGATE_NAME: unknown setting", ""},
		{"HEADGATE_PORT=8080", "", "HEADGATE_PORT is not a setting"},
		{"HEADGATE_ALLOW_HOST=x", "", "HEADGATE_ALLOW_HOST is for another command"},
	} {
		from := config.Sources{Environ: []string{"A=b", c.variable}, Others: []string{"HEADGATE_ALLOW_HOST"}}
		got, err := from.Load()
		switch {
		case c.refused != "" && (!errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: got %v want %s", c.variable, err, c.refused)
		case c.refused != "" && (strings.Contains(err.Error(), "secret") || len(err.Error()) > 300):
			t.Errorf("%.60s: the error is %s", c.variable, err)
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.variable, err)
		case c.refused == "" && !strings.HasPrefix(strings.Join(got.Warnings, "; "), c.warning), c.warning == "" && err == nil && len(got.Warnings) > 0:
			t.Errorf("%s: warnings %q want %q", c.variable, got.Warnings, c.warning)
		}
	}
}

// Errors in variables and in the file are reported together.
func TestUnknownVariablesAndFileErrors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte("stor: redis://a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := config.Sources{Path: path, Environ: []string{"HEADGATE_STOR=redis://b"}}
	_, err := from.Load()
	var all config.Errors
	if !errors.As(err, &all) || len(all) != 2 {
		t.Errorf("got %v want two errors", err)
	}
}
