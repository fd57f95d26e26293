package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	conf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/cmd/headgate/internal/controlplane"
	"github.com/headgate/headgate/internal/testserver"
)

// gateway is the control plane of Envoy Gateway and its deployment of
// envoyproxy/ratelimit, with this program instead.
type gateway struct {
	t       *testing.T
	plane   *controlplane.Server
	certs   string // folder of the limiter's certificate
	signer  *testserver.Authority
	service *launched
	client  pb.RateLimitServiceClient
}

const gatewayNode = "envoy-ratelimit"

// newGateway starts the control plane, which requires certificates that its authority
// signed.
func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{t: t, certs: t.TempDir()}
	g.plane = controlplane.Start(t, g.certify())
	return g
}

// certify writes certificates of a new authority and returns the TLS configuration of the
// control plane.
func (g *gateway) certify() *tls.Config {
	g.t.Helper()
	g.signer = testserver.NewAuthority(g.t)
	mine := g.signer.Write(g.t.TempDir(), 2, "envoy-gateway")
	g.signer.Write(g.certs, 3, "envoy-ratelimit")
	return &tls.Config{
		Certificates: []tls.Certificate{mine}, ClientCAs: g.signer.Pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
}

// environment returns the variables that Envoy Gateway sets in the container, with free
// addresses of this machine and shorter reconnect delays.
func (g *gateway) environment(more ...string) []string {
	return append([]string{
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info",
		"USE_STATSD=false", "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + g.plane.Addr(), "CONFIG_GRPC_XDS_NODE_ID=" + gatewayNode,
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + g.certs + "/tls.crt", "GRPC_SERVER_TLS_KEY=" + g.certs + "/tls.key",
		"GRPC_SERVER_TLS_CA_CERT=" + g.certs + "/ca.crt", "CONFIG_GRPC_XDS_SERVER_USE_TLS=true",
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + g.certs + "/tls.crt", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + g.certs + "/tls.key",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + g.certs + "/ca.crt",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + testserver.Redis(g.t).Addr(),
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN=envoy-gateway", "HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0",
		"HEADGATE_RESP_ADDR=off", "HEADGATE_ADMIN_ADDR=off", "HEADGATE_STORE_BUDGET=10s", "GORACE=" + raceSettings,
		"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL=50ms", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=50ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=100ms",
	}, more...)
}

// start starts the program as ratelimit, without arguments, in a folder that it cannot
// write to.
func (g *gateway) start(more ...string) {
	g.t.Helper()
	cmd := exec.Command("sh", "-c", "ulimit -f 0; exec ratelimit") //nolint:noctx // its end is seen to
	cmd.Env, cmd.Dir = g.environment(append(more, "PATH="+os.Getenv("PATH"))...), "/"
	g.service = startCommand(g.t, cmd)
}

// connect waits until the program listens.
func (g *gateway) connect() {
	g.t.Helper()
	g.service.mustListen(g.t, 3)
	trusted := &tls.Config{RootCAs: g.signer.Pool, ServerName: "envoy-ratelimit", MinVersion: tls.VersionTLS12}
	conn, err := grpc.NewClient(g.service.addrs["grpc"], grpc.WithTransportCredentials(credentials.NewTLS(trusted)))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { conn.Close() })
	g.client = pb.NewRateLimitServiceClient(conn)
}

// ask sends one hit of a user.
func (g *gateway) ask(user string) (*pb.RateLimitResponse, error) {
	return g.client.ShouldRateLimit(g.t.Context(), &pb.RateLimitRequest{
		Domain: "default/eg/http", Descriptors: []*ratelimitv3.RateLimitDescriptor{
			{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "route", Value: "checkout"}, {Key: "user", Value: user}}},
		},
	})
}

// limits returns a condition: responses use a rule with that many requests per hour.
func (g *gateway) limits(requests uint32) func() bool {
	return func() bool {
		resp, err := g.ask("looks")
		return err == nil && resp.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit() == requests
	}
}

// page returns the response body of a GET request.
func (g *gateway) page(listener, path string) string {
	g.t.Helper()
	resp, err := http.Get("http://" + g.service.addrs[listener] + path) //nolint:noctx // it answers at once
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}

// rules returns the rules that Envoy Gateway generates from a policy with a limit for
// each user.
func rules(unit conf.RateLimitUnit, requests uint32) *conf.RateLimitConfig {
	return &conf.RateLimitConfig{Name: "default/eg/http", Domain: "default/eg/http", Descriptors: []*conf.RateLimitDescriptor{
		{Key: "route", Value: "checkout", Descriptors: []*conf.RateLimitDescriptor{
			{Key: "user", RateLimit: &conf.RateLimitPolicy{Unit: unit, RequestsPerUnit: requests}},
		}},
	}}
}

// This program replaces envoyproxy/ratelimit under Envoy Gateway: health before the first
// configuration, rules over mutual TLS, changes of rules, refusals of invalid rules, and
// the last valid rules while the control plane is unavailable.
func TestEnvoyGateway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.start("FORCE_START_WITHOUT_INITIAL_CONFIG=true")
	g.connect()
	if got := g.page("http", "/healthcheck"); got != "200 OK" {
		t.Errorf("before the first configuration: /healthcheck returns %s", got)
	}
	if _, err := g.ask("anna"); status.Code(err) != codes.Unavailable {
		t.Errorf("before the first configuration: got %v, want Unavailable", err)
	}

	g.plane.Push(gatewayNode, "1", rules(conf.RateLimitUnit_HOUR, 2))
	eventually(t, "the pushed rules answer", g.limits(2))
	for i, want := range []pb.RateLimitResponse_Code{pb.RateLimitResponse_OK, pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT} {
		if resp, err := g.ask("bert"); err != nil || resp.GetOverallCode() != want {
			t.Errorf("request %d: got %v, error %v, want %v", i, resp, err, want)
		}
	}
	g.plane.Push(gatewayNode, "2", rules(conf.RateLimitUnit_WEEK, 9))
	eventually(t, "a change takes effect", g.limits(9))

	g.plane.Push(gatewayNode, "3", rules(conf.RateLimitUnit_UNKNOWN, 5))
	eventually(t, "what is wrong is refused", func() bool { return len(g.plane.Refusals()["2"]) > 0 })
	if got, want := g.plane.Refusals()["2"][0], "default/eg/http: invalid rate limit unit 'UNKNOWN'"; got != want {
		t.Errorf("the reason is %q, want %q", got, want)
	}
	if got := g.page("http", "/readyz"); !g.limits(9)() || !strings.Contains(got, `"refused":true`) || !strings.HasPrefix(got, "200") {
		t.Errorf("the last valid rules are not in use, or /readyz does not report them: %s", got)
	}
	metrics := g.page("metrics", "/metrics")
	for _, want := range []string{
		"ratelimit_service_config_load_success 2\n", "ratelimit_service_config_load_error 1\n", "headgate_envoy_xds_connected 1\n",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics does not contain %s", want)
		}
	}

	g.plane.Down()
	eventually(t, "it is known that the control plane is away", func() bool {
		return strings.Contains(g.page("http", "/readyz"), `"connected":false`) && strings.Contains(g.page("metrics", "/metrics"), "headgate_envoy_xds_connected 0\n")
	})
	if !g.limits(9)() {
		t.Error("the last valid rules are not in use while the control plane is unavailable")
	}
	g.plane.Secure(g.certify()) // files are read again
	g.plane.Up()
	g.plane.Push(gatewayNode, "1", rules(conf.RateLimitUnit_MINUTE, 7))
	eventually(t, "new rules apply after a reconnect, also with a version that was used before", g.limits(7))
	if got := g.page("http", "/readyz"); !strings.Contains(got, `"connected":true`) || !strings.Contains(got, `"status":"ok"`) {
		t.Errorf("/readyz returns %s", got)
	}
}

// Without FORCE_START_WITHOUT_INITIAL_CONFIG no listener starts before the first valid
// configuration.
func TestStartWaitsForEnvoyGateway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	long := strings.Repeat("d", 1<<20)
	g.plane.Push(gatewayNode, "1", &conf.RateLimitConfig{Name: "a", Domain: long}, &conf.RateLimitConfig{Name: "b", Domain: long})
	g.start()
	eventually(t, "the first configuration is refused", func() bool { return len(g.plane.Refusals()[""]) > 0 })
	g.plane.Push(gatewayNode, "2", rules(conf.RateLimitUnit_YEAR, 4))
	g.connect()
	if !g.limits(4)() {
		t.Error("the first response does not use the first valid configuration")
	}
	if log := g.service.text(); strings.Index(log, "Envoy configuration loaded") > strings.Index(log, `msg="listener started"`) ||
		strings.Contains(log, "previous rules stay in effect") {
		t.Errorf("a listener starts before the configuration is loaded, or the log mentions a previous one:\n%s", log)
	} else if !strings.Contains(log, "b: duplicate domain 'ddd") || len(log) > 16<<10 {
		t.Errorf("the log does not contain the error, or contains %d bytes", len(log))
	}
}

// A program that waits for its first rules logs the warnings of its own configuration,
// and obeys SIGHUP and SIGTERM.
func TestSignalsWhileWaitingForEnvoyGateway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(file, []byte("policies: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.start("HEADGATE_CONFIG="+file, "REDIS_PERSECOND=true")
	g.service.mustListen(t, 0) // it listens nowhere yet; its log is read
	eventually(t, "the control plane is asked", func() bool { return len(g.plane.Requests()) > 0 })
	eventually(t, "the variable without effect is logged", func() bool { return strings.Contains(g.service.text(), "REDIS_PERSECOND has no effect") })
	if err := g.service.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its own configuration is read again", func() bool { return strings.Contains(g.service.text(), "configuration loaded") })
	if err := g.service.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := g.service.cmd.Wait(); err != nil {
		t.Errorf("got %v, want status 0", err)
	}
}

// pair returns two rules with the same limit.
func pair(unit conf.RateLimitUnit, n uint32) *conf.RateLimitConfig {
	rule := &conf.RateLimitPolicy{Unit: unit, RequestsPerUnit: n}
	return &conf.RateLimitConfig{Name: "pair", Domain: "pair", Descriptors: []*conf.RateLimitDescriptor{
		{Key: "one", RateLimit: rule}, {Key: "other", RateLimit: rule},
	}}
}

// askPair returns the limit that both rules have in one response.
func (g *gateway) askPair() (uint32, error) {
	resp, err := g.client.ShouldRateLimit(g.t.Context(), &pb.RateLimitRequest{
		Domain: "pair", Descriptors: []*ratelimitv3.RateLimitDescriptor{
			{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "one", Value: "v"}}},
			{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "other", Value: "v"}}},
		},
	})
	if err != nil {
		return 0, err
	}
	one, other := resp.GetStatuses()[0].GetCurrentLimit(), resp.GetStatuses()[1].GetCurrentLimit()
	if one.GetRequestsPerUnit() != other.GetRequestsPerUnit() {
		return 0, fmt.Errorf("one response used two configurations: %v", resp)
	}
	return one.GetRequestsPerUnit(), nil
}

// While the control plane sends valid and invalid rules, every request is answered, each
// by one configuration.
func TestRuleChangesUnderLoad(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.plane.Push(gatewayNode, "0", pair(conf.RateLimitUnit_HOUR, 1_000_000))
	g.start("HEADGATE_STORE=memory://")
	g.connect()
	var callers sync.WaitGroup
	over := make(chan bool)
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if n, err := g.askPair(); err != nil || n < 1_000_000 {
					t.Errorf("%d, error %v: want every request answered by valid rules", n, err)
					return
				}
			}
		})
	}
	for i := range uint32(40) {
		if i%8 == 7 {
			answered := len(g.plane.Requests())
			g.plane.Push(gatewayNode, fmt.Sprint("bad ", i), pair(conf.RateLimitUnit_UNKNOWN, i))
			eventually(t, "bad rules are answered", func() bool { return len(g.plane.Requests()) > answered })
			continue
		}
		g.plane.Push(gatewayNode, fmt.Sprint(i), pair(conf.RateLimitUnit_HOUR, 1_000_000+i))
		eventually(t, "valid rules apply", func() bool { n, err := g.askPair(); return err != nil || n == 1_000_000+i })
	}
	close(over)
	callers.Wait()
}

// With envoy.need_domains the health check fails until there is a domain.
func TestHealthcheckRequiresDomain(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.plane.Push(gatewayNode, "1")
	g.start("FORCE_START_WITHOUT_INITIAL_CONFIG=true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true", "HEADGATE_STORE=memory://")
	g.connect()
	eventually(t, "a configuration without domains applies", func() bool { return strings.Contains(g.page("http", "/readyz"), `"configured":true`) })
	if got := g.page("http", "/healthcheck"); got != "500 " {
		t.Errorf("without a domain: /healthcheck returns %s, want 500", got)
	}
	g.plane.Push(gatewayNode, "2", rules(conf.RateLimitUnit_DAY, 3))
	eventually(t, "/healthcheck returns 200", func() bool { return g.page("http", "/healthcheck") == "200 OK" })
}
