package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/testserver"
)

// leasing is a service whose policies are leased.
type leasing struct {
	*launched
	t     *testing.T
	file  string
	envoy pb.RateLimitServiceClient
}

// startLeasing starts a service on redis. policies has the lines of the section policies,
// and rules the lines of the descriptors for Envoy.
func startLeasing(t *testing.T, redis *testserver.RedisServer, policies, rules string) *leasing {
	t.Helper()
	return startLeasingOn(t, "redis://"+redis.Addr(), "1m", policies, rules)
}

// startLeasingOn is like startLeasing on any store, for which a decision waits for at
// most budget. A test that stops the store sets a short budget.
func startLeasingOn(t *testing.T, store, budget, policies, rules string) *leasing {
	t.Helper()
	folder := t.TempDir()
	s := &leasing{t: t, file: filepath.Join(folder, "headgate.yaml")}
	s.write("store: " + store + "\nstore_budget: " + budget + "\nenvoy: {config: ./rules}\npolicies:\n" + policies)
	if err := os.Mkdir(filepath.Join(folder, "rules"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "rules", "d.yaml"), []byte("domain: d\ndescriptors:\n"+rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s.launched = launch(t, 4, "--config", s.file, "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--resp-addr", "127.0.0.1:0",
		"--admin-addr", "127.0.0.1:0", "--log-denials", "0")
	conn, err := grpc.NewClient(s.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.envoy = pb.NewRateLimitServiceClient(conn)
	return s
}

// write replaces the configuration file.
func (s *leasing) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file+".new", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		s.t.Fatal(err)
	}
}

// replace replaces a text in the configuration file.
func (s *leasing) replace(before, after string) {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil || !bytes.Contains(text, []byte(before)) {
		s.t.Fatalf("the file %s does not contain %q (%v)", text, before, err)
	}
	s.write(strings.Replace(string(text), before, after, 1))
}

// decided is the answer to a check.
type decided struct {
	Status    int
	Allowed   bool
	Leased    bool
	Degraded  bool
	Remaining int64
	Results   []struct{ Leased bool }
}

// ask sends a request for one unit of a policy to the HTTP API.
func (s *leasing) ask(ctx context.Context, operation, policy, key string) (d decided, err error) {
	body, err := json.Marshal(map[string]string{"policy": policy, "key": key})
	if err != nil {
		return d, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addrs["http"]+"/v1/"+operation, bytes.NewReader(body))
	if err != nil {
		return d, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return d, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&d)
	d.Status = resp.StatusCode
	return d, err
}

func (s *leasing) check(policy, key string) decided { return s.must("check", policy, key) }
func (s *leasing) peek(policy, key string) decided  { return s.must("peek", policy, key) }

func (s *leasing) must(operation, policy, key string) decided {
	s.t.Helper()
	d, err := s.ask(s.t.Context(), operation, policy, key)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// shouldLimit sends one hit of a descriptor to Envoy's rate limit service, and reports
// whether it is allowed.
func (s *leasing) shouldLimit(ctx context.Context, key, value string) (allowed bool, err error) {
	answer, err := s.envoy.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{
		{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}},
	}})
	return answer.GetOverallCode() == pb.RateLimitResponse_OK, err
}

// metric returns the value of a metric, with its labels as in a scrape.
func (s *leasing) metric(name string) float64 {
	s.t.Helper()
	resp, err := http.Get("http://" + s.addrs["admin"] + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return value
		}
	}
	s.t.Fatalf("there is no metric %s", name)
	return 0
}
