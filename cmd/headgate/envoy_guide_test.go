package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rate_limit_quota/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const envoyExamples = "../../examples/envoy"

// Envoy's own types accept the configuration of the guide: all names exist, and all
// values are in the ranges that Envoy validates.
func TestEnvoyExampleConfiguration(t *testing.T) {
	t.Parallel()
	mistakes := map[string]map[string]string{
		"/envoy.yaml": {
			"failure_mode_deny":      "failure_mode_denied",
			"use_remote_address":     "use_remote_addresses",
			"DRAFT_VERSION_03":       "DRAFT_VERSION_99",
			"domain: shop":           `domain: ""`,
			"filters.http.router.v3": "filters.http.rooter.v3",
			"rate_limits: #":         "rate_limit: #",
		},
		"/quota.yaml": {
			"reporting_interval: 1s": "reporting_interval: 0s",
			"no_assignment_behavior": "without_assignment",
			"blanket_rule: DENY_ALL": "blanket_rule: DENY_SOME",
			"rlqs_server":            "rlqs",
			"domain: shop":           `domain: ""`,
			"RateLimitQuotaFilter":   "RateLimitsQuotaFilter",
		},
	}
	for name, changes := range mistakes {
		text, err := os.ReadFile(envoyExamples + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkEnvoy(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for from, to := range changes {
			changed := strings.Replace(string(text), from, to, 1)
			if err := checkEnvoy([]byte(changed)); changed == string(text) || err == nil {
				t.Errorf("%s: %s instead of %s: got no error, want one", name, to, from)
			}
		}
	}
}

// checkEnvoy returns an error if Envoy would reject a configuration.
func checkEnvoy(text []byte) error {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return err
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	var config bootstrap.Bootstrap
	if err := protojson.Unmarshal(asJSON, &config); err != nil {
		return err
	}
	// Range also visits the messages in each typed_config.
	return protorange.Range(config.ProtoReflect(), func(p protopath.Values) error {
		message, ok := p.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		if v, ok := message.Interface().(interface{ Validate() error }); ok {
			return v.Validate()
		}
		return nil
	})
}

var (
	guideRequest  = regexp.MustCompile(`grpcurl -plaintext -d '([^']+)'`)
	guideResponse = regexp.MustCompile(`(?m)^\$ ask\n  "overallCode": "(\w+)",$`)
)

// The requests of the guide get the responses of the guide, from a service with the rules
// of the guide.
func TestEnvoyGuide(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("headgate", "config", "check", envoyExamples+"/rules").CombinedOutput(); err != nil {
		t.Fatalf("config check: %v\n%s", err, out)
	}
	page, err := os.ReadFile("../../docs/guides/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	shown, want := guideRequest.FindSubmatch(page), guideResponse.FindAllSubmatch(page, -1)
	if shown == nil || len(want) < 4 {
		t.Fatalf("the guide has %d responses, want a request and at least 4", len(want))
	}
	var request pb.RateLimitRequest
	if err := protojson.Unmarshal(shown[1], &request); err != nil {
		t.Fatal(err)
	}
	client := guideClient(t)
	for i, m := range want {
		resp, err := client.ShouldRateLimit(t.Context(), &request)
		if err != nil || resp.GetOverallCode().String() != string(m[1]) {
			t.Errorf("request %d: got %v, error %v, want %s", i+1, resp, err, m[1])
		}
	}
}

// guideClient returns a client of a service with the rules of the guide.
func guideClient(t *testing.T) pb.RateLimitServiceClient {
	t.Helper()
	service := launch(t, 2, "--envoy-config", envoyExamples+"/rules",
		"--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--resp-addr", "off", "--admin-addr", "off")
	conn, err := grpc.NewClient(service.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewRateLimitServiceClient(conn)
}
