package main

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	conf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/credentials"

	"github.com/headgate/headgate/cmd/headgate/internal/controlplane"
	"github.com/headgate/headgate/internal/testserver"
)

// These are the cases of envoyproxy/ratelimit's own integration tests
// (test/integration, at f2fb15770f7f) with their variables. The gauges of its local
// cache are left out, because Headgate has no such cache. Its second Redis for limits
// per second is configured and not used.

// baseCase is one case of its test with several clients and limits.
type baseCase struct {
	name string
	env  []string
	want int // remaining hits of key2 after key3 is over its limit; 0 if key2 is still charged
}

const perSecond = "REDIS_PERSECOND=true"

// variants returns the cases without and with the second Redis, and without and with the
// local cache.
func variants(env ...string) []baseCase {
	second := []string{perSecond, "REDIS_PERSECOND_SOCKET_TYPE=tcp", "REDIS_PERSECOND_URL=127.0.0.1:1"}
	cache := "LOCAL_CACHE_SIZE_IN_BYTES=1000"
	return []baseCase{
		{"WithoutPerSecondRedis", env, 0},
		{"WithPerSecondRedis", append(second, env...), 0},
		{"WithoutPerSecondRedisWithLocalCache", append([]string{cache}, env...), 0},
		{"WithPerSecondRedisWithLocalCache", append(append([]string{cache}, second...), env...), 0},
	}
}

// runCases runs all cases, or the first one in the short form.
func runCases(t *testing.T, cases []baseCase) {
	t.Helper()
	if testing.Short() {
		cases = cases[:1]
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := replaceRatelimit(t, append(c.env, "RUNTIME_ROOT="+rulesRoot(t, "testdata/ratelimit/rules"), "RUNTIME_SUBDIRECTORY=ratelimit")...)
			p.runBase(c.want)
		})
	}
}

func TestRatelimitRedis(t *testing.T) {
	t.Parallel()
	redis := "REDIS_URL=" + testserver.Redis(t).Addr()
	runCases(t, append(variants(redis), baseCase{"WithCachePrefix", []string{redis, "CACHE_KEY_PREFIX=prefix:"}, 0}))
}

// With STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, a denied request charges none of its
// descriptors.
func TestRatelimitStopsIncrement(t *testing.T) {
	t.Parallel()
	cases := variants("REDIS_URL="+testserver.Redis(t).Addr(), "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true")
	for i := range cases {
		cases[i].want = 10
	}
	runCases(t, cases)
}

func TestRatelimitTLS(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, testserver.TLS(), testserver.Password("password123"), testserver.WithConfig("tls-auth-clients", "yes"))
	dir := filepath.Dir(s.CAFile())
	env := []string{
		"REDIS_URL=" + s.Addr(), "REDIS_TLS=true", "REDIS_AUTH=password123", "REDIS_PERSECOND_TLS=true",
		"REDIS_TLS_CACERT=" + s.CAFile(),
	}
	withCert := append([]string{"REDIS_TLS_CLIENT_CERT=" + dir + "/tls.crt", "REDIS_TLS_CLIENT_KEY=" + dir + "/tls.key"}, env...)
	open := testserver.Redis(t, testserver.TLS(), testserver.Password("password123"))
	env[0], env[4] = "REDIS_URL="+open.Addr(), "REDIS_TLS_CACERT="+open.CAFile()
	runCases(t, append(variants(env...), baseCase{"WithClientCert", withCert, 0}))
}

func TestRatelimitAuth(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, testserver.Password("password123"))
	runCases(t, variants("REDIS_URL="+s.Addr(), "REDIS_AUTH=password123", "REDIS_PERSECOND_AUTH=password123"))
}

func TestRatelimitCluster(t *testing.T) {
	t.Parallel()
	s := testserver.Cluster(t, 3, 0, testserver.Password("password123"))
	runCases(t, variants("REDIS_TYPE=cluster", "REDIS_URL="+strings.Join(s.Addrs(), ","), "REDIS_AUTH=password123", "REDIS_PIPELINE_WINDOW=150us"))
}

func TestRatelimitSentinel(t *testing.T) {
	t.Parallel()
	s := testserver.Sentinel(t, testserver.Password("password123"))
	url := s.MasterName() + "," + strings.Join(s.Addrs(), ",")
	runCases(t, variants("REDIS_TYPE=sentinel", "REDIS_URL="+url, "REDIS_AUTH=password123"))
}

func TestRatelimitMemcached(t *testing.T) {
	t.Parallel()
	one, other := testserver.Memcached(t).Addr(), testserver.Memcached(t).Addr()
	single := []string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + one}
	runCases(t, []baseCase{
		{"Memcache", single, 0},
		{"MemcacheWithLocalCache", append([]string{"LOCAL_CACHE_SIZE_IN_BYTES=1000"}, single...), 0},
		{"MemcacheWithPrefix", append([]string{"CACHE_KEY_PREFIX=prefix:"}, single...), 0},
		{"MemcacheWithDefaultMaxIdleConns", append([]string{"MEMCACHE_MAX_IDLE_CONNS=2"}, single...), 0},
		{"MemcacheWithSpecifiedMaxIdleConns", append([]string{"MEMCACHE_MAX_IDLE_CONNS=100"}, single...), 0},
		{"MemcacheMultipleNodes", []string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + one + "," + other}, 0},
	})
}

// xdsConfigs are the rules of testdata/ratelimit/rules as resources of a control plane.
func xdsConfigs() []*conf.RateLimitConfig {
	rule := func(key string, unit conf.RateLimitUnit, n uint32) *conf.RateLimitDescriptor {
		return &conf.RateLimitDescriptor{Key: key, RateLimit: &conf.RateLimitPolicy{Unit: unit, RequestsPerUnit: n}}
	}
	return []*conf.RateLimitConfig{
		{Name: "basic", Domain: "basic", Descriptors: []*conf.RateLimitDescriptor{rule("key1", conf.RateLimitUnit_SECOND, 50)}},
		{Name: "another", Domain: "another", Descriptors: []*conf.RateLimitDescriptor{
			rule("key2", conf.RateLimitUnit_MINUTE, 20), rule("key3", conf.RateLimitUnit_HOUR, 10), rule("key4", conf.RateLimitUnit_DAY, 20),
		}},
	}
}

func startControlPlane(t *testing.T) (*controlplane.Server, []string) {
	t.Helper()
	plane := controlplane.Start(t, nil)
	plane.Push("init-test-node", "1", xdsConfigs()...)
	return plane, []string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_ID=init-test-node", "CONFIG_GRPC_XDS_SERVER_URL=" + plane.Addr()}
}

func TestRatelimitXDS(t *testing.T) {
	t.Parallel()
	_, env := startControlPlane(t)
	runCases(t, variants(append(env, "REDIS_URL="+testserver.Redis(t).Addr())...))
}

// Rules that are added to or removed from the folder or the control plane apply to later
// requests.
func TestRatelimitReload(t *testing.T) {
	t.Parallel()
	redis := "REDIS_URL=" + testserver.Redis(t).Addr()
	t.Run("WithoutWatchRoot", func(t *testing.T) {
		t.Parallel()
		root := rulesRoot(t, "testdata/ratelimit/rules")
		p := replaceRatelimit(t, redis, "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false")
		p.runBase(0)
		added := root + "/ratelimit/config/reload.yaml"
		p.runReload(func() {
			text := "domain: reload\ndescriptors: [{key: block, rate_limit: {unit: second, requests_per_unit: 0}}]"
			if err := os.WriteFile(added, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}, func() {
			if err := os.Remove(added); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("XDS", func(t *testing.T) {
		t.Parallel()
		plane, env := startControlPlane(t)
		p := replaceRatelimit(t, append(env, redis)...)
		p.runReload(func() {
			plane.Push("init-test-node", "2", append(xdsConfigs(), &conf.RateLimitConfig{
				Name: "reload", Domain: "reload", Descriptors: []*conf.RateLimitDescriptor{
					{Key: "block", RateLimit: &conf.RateLimitPolicy{Unit: conf.RateLimitUnit_SECOND}},
				},
			})...)
		}, func() { plane.Push("init-test-node", "3", xdsConfigs()...) })
	})
}

// Rule files may have any name and be in subfolders, and metadata may have any keys.
func TestRatelimitFiles(t *testing.T) {
	t.Parallel()
	root := rulesRoot(t, "testdata/ratelimit/rules")
	folder := root + "/ratelimit/config/"
	write := func(name, content string) {
		if err := os.MkdirAll(filepath.Dir(folder+name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const rule = "\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 7}, metadata: {y: 1, 2: x}}]"
	write("b.yml", "domain: yml"+rule)
	write("sub/further/c", "domain: below"+rule)
	p := replaceRatelimit(t, "REDIS_URL="+testserver.Redis(t).Addr(), "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit",
		"RUNTIME_WATCH_ROOT=false", "RESPONSE_DYNAMIC_METADATA=true")
	for _, domain := range []string{"yml", "below"} {
		resp := p.mustAsk(domain, 1, "k=v")
		if got, want := summary(resp), "OK | OK 7/DAY left 6"; got != want {
			t.Errorf("domain %s: got %s want %s", domain, got, want)
		}
		if got := resp.GetDynamicMetadata().GetFields()["metadata"].GetStructValue().GetFields(); got["y"].GetNumberValue() != 1 || got["2"].GetStringValue() != "x" {
			t.Errorf("domain %s: metadata %v", domain, got)
		}
	}
	write("sub/new/d.yaml", "domain: added"+rule)
	eventually(t, "a file in a new subfolder applies", func() bool { return summary(p.mustAsk("added", 0, "k=v")) == "OK | OK 7/DAY left 7" })
}

// The log line of a denial contains the limit of the rule, also if it is 0. A rule in
// shadow mode denies nothing, and its line has another message.
func TestRatelimitDenialLog(t *testing.T) {
	t.Parallel()
	root := rulesRoot(t, "testdata/ratelimit/rules")
	rules := "domain: log\ndescriptors:\n" +
		"  - {key: plain, rate_limit: {unit: day, requests_per_unit: 3}}\n" +
		"  - {key: seen, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}\n" +
		"  - {key: none, rate_limit: {unit: hour, requests_per_unit: 0}}\n" +
		"  - {key: noneseen, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}\n"
	if err := os.WriteFile(root+"/ratelimit/config/log.yaml", []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	p := replaceRatelimit(t, "REDIS_URL="+testserver.Redis(t).Addr(), "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit")
	for range 4 {
		p.mustAsk("log", 1, "plain=v", "seen=v")
	}
	p.mustAsk("log", 1, "none=v")
	p.mustAsk("log", 1, "noneseen=v")
	for _, want := range []string{
		`msg="request denied" api=grpc rule=log.plain limit=3/d `,
		`msg="request would be denied (shadow mode)" api=grpc rule=log.seen limit=2/h `,
		`msg="request denied" api=grpc rule=log.none limit=0/h `,
		`msg="request would be denied (shadow mode)" api=grpc rule=log.noneseen limit=0/d `,
	} {
		eventually(t, want, func() bool { return strings.Contains(p.text(), want) })
	}
}

// runReload checks that the domain reload applies after add and no longer after remove.
func (p *replacement) runReload(add, remove func()) {
	p.t.Helper()
	code := func() string { return summary(p.mustAsk("reload", 1, "block=foo")) }
	if got := code(); got != "OK | OK" {
		p.t.Errorf("before the rules are added: %s", got)
	}
	add()
	eventually(p.t, "the added rules apply", func() bool { return code() == "OVER_LIMIT | OVER_LIMIT 0/SECOND left 0" })
	remove()
	eventually(p.t, "the removed rules do not apply", func() bool { return code() == "OK | OK" })
	if !strings.Contains(p.metrics(), "ratelimit_service_config_load_success 3\n") {
		p.t.Error("/metrics does not count three configurations")
	}
}

func TestRatelimitExtraTags(t *testing.T) {
	t.Parallel()
	p := replaceRatelimit(t, "REDIS_URL="+testserver.Redis(t).Addr(), "EXTRA_TAGS=foo:bar,a:b",
		"RUNTIME_ROOT="+rulesRoot(t, "testdata/ratelimit/rules"), "RUNTIME_SUBDIRECTORY=ratelimit")
	p.mustAsk("basic", 1, "key1=foo")
	if got := p.hits("total_hits", "basic", "key1"); got != 1 {
		t.Errorf("total_hits is %d; want 1", got)
	}
}

// All values of a rule with share_threshold share one counter.
func TestRatelimitShareThreshold(t *testing.T) {
	t.Parallel()
	p := replaceRatelimit(t, "REDIS_URL="+testserver.Redis(t).Addr(),
		"RUNTIME_ROOT="+rulesRoot(t, "testdata/ratelimit/rules"), "RUNTIME_SUBDIRECTORY=ratelimit")
	for range 10 {
		p.mustAsk("share", 1, "files=files/a.pdf")
	}
	hour := time.Now().Unix() / 3600
	got := summary(p.mustAsk("share", 1, "files=files/b.csv"))
	if want := "OVER_LIMIT | OVER_LIMIT 10/HOUR left 0"; got != want && hour == time.Now().Unix()/3600 {
		t.Errorf("another value of a shared counter: got %s want %s", got, want)
	}
	for i := range 10 {
		if got, want := summary(p.mustAsk("share", 1, fmt.Sprint("own=own/", i))), "OK | OK 10/HOUR left 9"; got != want {
			t.Errorf("a value with its own counter: got %s want %s", got, want)
		}
	}
}

// The gRPC listener requires client certificates, and uses replaced certificates.
func TestRatelimitServerTLS(t *testing.T) {
	t.Parallel()
	server, clients, dir := testserver.NewAuthority(t), testserver.NewAuthority(t), t.TempDir()
	server.Write(dir, 2, "server.example")
	ca := t.TempDir()
	own := clients.Write(ca, 3, "client.example")
	p := startRatelimit(t, "REDIS_URL="+testserver.Redis(t).Addr(), "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+dir+"/tls.crt",
		"GRPC_SERVER_TLS_KEY="+dir+"/tls.key", "GRPC_CLIENT_TLS_CACERT="+ca+"/ca.crt", "GRPC_CLIENT_TLS_SAN=client.example",
		"RUNTIME_ROOT="+rulesRoot(t, "testdata/ratelimit/rules"), "RUNTIME_SUBDIRECTORY=ratelimit")
	p.mustListen(t, 4)
	eventually(t, "the store is reachable", p.ready)
	if err := askGRPCS(p.addrs["grpc"], clientOf(server)); err == nil {
		t.Error("a client without a certificate is accepted")
	}
	if err := askGRPCS(p.addrs["grpc"], clientOf(server, own)); err != nil {
		t.Errorf("a client with a certificate: %v", err)
	}
	p.connect(credentials.NewTLS(clientOf(server, own)))
	p.mustAsk("basic", 1, "key1=foo")
	next := testserver.NewAuthority(t)
	if err := askGRPCS(p.addrs["grpc"], clientOf(next, own)); err == nil {
		t.Error("a client that does not trust the certificate connects")
	}
	next.Write(dir, 4, "server.example")
	eventually(t, "the new certificate is used", func() bool { return askGRPCS(p.addrs["grpc"], clientOf(next, own)) == nil })
	if err := askGRPCS(p.addrs["grpc"], clientOf(server, []tls.Certificate{own}...)); err == nil {
		t.Error("a client that trusts only the replaced certificate connects")
	}
}

// runBase plays the steps of all cases, again if a window ends during them.
func (p *replacement) runBase(kept int) {
	p.t.Helper()
	for range 5 {
		started := time.Now().Unix()
		wrong := p.base(rand.Text(), kept)
		if time.Now().Unix()/60 != started/60 {
			continue
		}
		for _, text := range wrong {
			p.t.Error(text)
		}
		return
	}
	p.t.Error("a window ended during each of 5 attempts")
}

// base plays the steps with unused values of key2 and key3. It returns the differences.
func (p *replacement) base(value string, kept int) (wrong []string) {
	p.t.Helper()
	check := func(what, got, want string) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s: got %s want %s", what, got, want))
		}
	}
	check("unknown domain", summary(p.mustAsk("foo", 1, "hello=world")), "OK | OK")
	check("key1", summary(p.mustAsk("basic", 1, "key1="+value)), "OK | OK 50/SECOND left 49")
	total, over := p.hits("total_hits", "another", "key2"), p.hits("over_limit", "another", "key2")
	for i := 1; i <= 25; i++ {
		want := fmt.Sprintf("OK | OK 20/MINUTE left %d", 20-i)
		if i > 20 {
			want = "OVER_LIMIT | OVER_LIMIT 20/MINUTE left 0"
		}
		check(fmt.Sprintf("key2, request %d", i), summary(p.mustAsk("another", 1, "key2="+value)), want)
		check("total_hits", fmt.Sprint(p.hits("total_hits", "another", "key2")), fmt.Sprint(total+i))
		check("over_limit", fmt.Sprint(p.hits("over_limit", "another", "key2")), fmt.Sprint(over+max(0, i-20)))
	}
	wrong = append(wrong, p.basePair(value+"pair", kept)...)
	first := p.mustAsk("another", 1, "key4=durTest")
	left := first.GetStatuses()[0].GetDurationUntilReset().GetSeconds()
	now := time.Now().Unix()
	if want := 86400 - now%86400; left < want || left > want+1 {
		wrong = append(wrong, fmt.Sprintf("duration_until_reset is %d s; want %d to %d s", left, want, want+1))
	}
	return wrong
}

// basePair requests both keys together, until after key3 is over its limit.
func (p *replacement) basePair(value string, kept int) (wrong []string) {
	p.t.Helper()
	total, over := p.hits("total_hits", "another", "key3"), p.hits("over_limit", "another", "key3")
	for i := 1; i <= 15; i++ {
		resp := p.mustAsk("another", 1, "key2="+value, "key3="+value)
		code, left2, left3 := pb.RateLimitResponse_OK, 20-i, 10-i
		if i > 10 {
			code, left3 = pb.RateLimitResponse_OVER_LIMIT, 0
			if kept > 0 {
				left2 = kept
			}
		}
		want := fmt.Sprintf("%s | OK 20/MINUTE left %d | %s 10/HOUR left %d", code, left2, code, left3)
		if got := summary(resp); got != want {
			wrong = append(wrong, fmt.Sprintf("key2 and key3, request %d: got %s want %s", i, got, want))
		}
		gotTotal, gotOver := p.hits("total_hits", "another", "key3"), p.hits("over_limit", "another", "key3")
		if gotTotal != total+i || gotOver != over+max(0, i-10) {
			wrong = append(wrong, fmt.Sprintf("request %d: key3 has total_hits %d and over_limit %d", i, gotTotal-total, gotOver-over))
		}
	}
	return wrong
}
