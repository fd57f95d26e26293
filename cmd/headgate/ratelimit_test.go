package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// replacement is this program in the place of envoyproxy/ratelimit: started as ratelimit,
// with variables of envoyproxy/ratelimit.
type replacement struct {
	*launched
	t      *testing.T
	client pb.RateLimitServiceClient
}

// ratelimitEnv returns variables with free loopback addresses for all listeners of
// envoyproxy/ratelimit, and more.
func ratelimitEnv(more ...string) []string {
	return append([]string{
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_PORT=0", "USE_STATSD=false",
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "REDIS_SOCKET_TYPE=tcp",
		"HEADGATE_STORE_BUDGET=10s", // a slow machine must not change decisions
		"GORACE=" + raceSettings, "PATH=" + os.Getenv("PATH"),
	}, more...)
}

// startRatelimit starts the program, without waiting for its listeners.
func startRatelimit(t *testing.T, env ...string) *replacement {
	t.Helper()
	cmd := exec.Command("ratelimit")
	cmd.Env = ratelimitEnv(env...)
	return &replacement{launched: startCommand(t, cmd), t: t}
}

// replaceRatelimit starts the program, connects to it, and waits until its store is
// reachable.
func replaceRatelimit(t *testing.T, env ...string) *replacement {
	t.Helper()
	p := replaceWithoutStore(t, env...)
	eventually(t, "the store is reachable", p.ready)
	return p
}

// ready reports whether the store is reachable.
func (p *replacement) ready() bool {
	resp, err := http.Get("http://" + p.addrs["http"] + "/readyz") //nolint:noctx // it answers immediately
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// replaceWithoutStore is like replaceRatelimit, but does not wait for the store.
func replaceWithoutStore(t *testing.T, env ...string) *replacement {
	t.Helper()
	p := startRatelimit(t, append(env, "HEADGATE_STORE_BUDGET=10s")...) // a slow machine needs more than 50 ms
	p.mustListen(t, 4)
	if addr, on := p.addrs["resp"]; on {
		t.Errorf("the listener for Redis clients is on %s; want off", addr)
	}
	p.connect(insecure.NewCredentials())
	return p
}

func (p *replacement) connect(secure credentials.TransportCredentials) {
	p.t.Helper()
	conn, err := grpc.NewClient(p.addrs["grpc"], grpc.WithTransportCredentials(secure))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	p.client = pb.NewRateLimitServiceClient(conn)
}

// rulesRoot returns a RUNTIME_ROOT whose folder ratelimit/config has the files of a
// folder.
func rulesRoot(t *testing.T, folder string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(root+"/ratelimit", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(root+"/ratelimit/config", os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return root
}

// descriptorOf parses entries of the form key=value key=value.
func descriptorOf(text string) *ratelimitv3.RateLimitDescriptor {
	d := new(ratelimitv3.RateLimitDescriptor)
	for entry := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// ask requests hits for each descriptor of a domain.
func (p *replacement) ask(domain string, hits uint64, descriptors ...string) (*pb.RateLimitResponse, error) {
	req := &pb.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		d := descriptorOf(text)
		d.HitsAddend = wrapperspb.UInt64(hits)
		req.Descriptors = append(req.Descriptors, d)
	}
	return p.client.ShouldRateLimit(p.t.Context(), req)
}

// mustAsk is like ask, and ends the test on an error.
func (p *replacement) mustAsk(domain string, hits uint64, descriptors ...string) *pb.RateLimitResponse {
	p.t.Helper()
	resp, err := p.ask(domain, hits, descriptors...)
	if err != nil {
		p.t.Fatalf("%s %q: %v\n%s", domain, descriptors, err, p.text())
	}
	return resp
}

// summary describes a response: the overall code, and code, limit, unit and remaining
// hits of each status.
func summary(resp *pb.RateLimitResponse) string {
	text := resp.GetOverallCode().String()
	for _, s := range resp.GetStatuses() {
		text += " | " + s.GetCode().String()
		if limit := s.GetCurrentLimit(); limit != nil {
			text += fmt.Sprintf(" %d/%s left %d", limit.GetRequestsPerUnit(), limit.GetUnit(), s.GetLimitRemaining())
		}
	}
	return text
}

// metrics returns the page for Prometheus.
func (p *replacement) metrics() string {
	p.t.Helper()
	resp, err := http.Get("http://" + p.addrs["metrics"] + "/metrics") //nolint:noctx // it answers immediately
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(body)
}

// hits returns the value of a counter of a rule, or 0 if the counter does not exist.
func (p *replacement) hits(counter, domain, key string) int {
	p.t.Helper()
	name := fmt.Sprintf("ratelimit_service_rate_limit_%s{domain=%q,key1=%q}", counter, domain, key)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\d+)$`).FindStringSubmatch(p.metrics())
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}
