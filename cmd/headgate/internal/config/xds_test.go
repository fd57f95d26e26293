package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

func TestXDSErrors(t *testing.T) {
	t.Parallel()
	xds := map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW"}
	for name, value := range map[string]string{
		"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "1.5", "XDS_CLIENT_BACKOFF_JITTER": "maybe", "XDS_CLIENT_BACKOFF_MAX_INTERVAL": "soon",
		"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "-1", "CONFIG_GRPC_XDS_SERVER_URL": "https://eg:18001", "CONFIG_GRPC_XDS_SERVER_USE_TLS": "2",
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": "0s", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "authorization=Bearer-s3cret",
	} {
		from := config.Sources{Ratelimit: true, Lookup: lookupOf(map[string]string{"CONFIG_TYPE": xds["CONFIG_TYPE"], name: value})}
		_, err := from.Load()
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s=%s: got %v, want an error that names it, and no secret", name, value, err)
		}
	}
	path := t.TempDir() + "/f.yaml"
	replace(t, path, "envoy:\n  xds:\n    server: eg:18001\n    server_ca: ca.crt\n")
	from := config.Sources{Path: path}
	if _, err := from.Load(); err == nil || !strings.Contains(err.Error(), "f.yaml:4:") || !strings.Contains(err.Error(), "plain text") {
		t.Errorf("TLS files without TLS: got %v, want an error with their line", err)
	}
}

// The values of headers are not printed.
func TestXDSHeadersMasked(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/f.yaml"
	replace(t, path, `envoy: {xds: {server: "eg:18001", headers: ["Authorization: Bearer s3cret, and more"], backoff_random: 100%}}`)
	from := config.Sources{Path: path}
	c, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Contains(text, "s3cret") || !strings.Contains(text, "Authorization: ***") || !strings.Contains(text, "backoff_random: 100%") {
		t.Errorf("config print writes\n%s", text)
	}
	if name, value := c.Envoy.XDS.Headers[0].Split(); name != "authorization" || value != "Bearer s3cret, and more" {
		t.Errorf("the header is %s: %s", name, value)
	}
	replace(t, path, b.String())
	if c, err = from.Load(); err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "envoy.xds.headers contains ***") {
		t.Errorf("got %v, error %v, want a warning about the masked secret", c, err)
	}
}

// PROMETHEUS_MAPPER_YAML produces a warning if the file exists.
func TestMetricsMapperWarning(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/conf.yaml"
	from := config.Sources{Ratelimit: true, Lookup: lookupOf(map[string]string{"PROMETHEUS_MAPPER_YAML": path, "REDIS_URL": "r:1"})}
	if c, err := from.Load(); err != nil || len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "http.addr") {
		t.Errorf("without the file: %v, error %v", c, err)
	}
	replace(t, path, "mappings: []")
	if c, err := from.Load(); err != nil || len(c.Warnings) != 2 || !strings.HasPrefix(c.Warnings[0], "PROMETHEUS_MAPPER_YAML has no effect") {
		t.Errorf("with the file: %v, error %v", c, err)
	}
}

// Unusual values that envoyproxy/ratelimit accepts are accepted unchanged.
func TestXDSUnusualValues(t *testing.T) {
	t.Parallel()
	from := config.Sources{Ratelimit: true, Lookup: lookupOf(map[string]string{
		"CONFIG_TYPE": "GRPC_XDS_SOTW", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "2147483647",
		"CONFIG_GRPC_XDS_NODE_METADATA": `=nothing,word, région du nord=a=b,{"a":"b"},z=`,
	})}
	c, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	x := &c.Envoy.XDS
	if want := []config.Label{"région du nord=a=b", "z="}; !slices.Equal(x.NodeMetadata, want) || x.MaxMessageBytes != 1<<31-1 {
		t.Errorf("got %q and %d bytes, want %q and 2147483647", x.NodeMetadata, x.MaxMessageBytes, want)
	}
}
