// Package service_test compares the APIs of the service: each returns the decision of the
// limiter.
package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/respapi"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// fixedClock is a store whose own clock is set by the test. All APIs decide by the clock
// of the store, so all of them decide at the same instant.
type fixedClock struct {
	headgate.Store
	now *atomic.Int64
}

func (s fixedClock) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return fixedClockBound{b, s.now}, err
}

func (s fixedClock) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	inner := make([]headgate.Op, len(ops))
	for i, op := range ops {
		op.Bound = op.Bound.(fixedClockBound).Bound
		inner[i] = op
	}
	return s.Store.ApplyAll(ctx, at(now, s.now), inner, peek, decisions)
}

type fixedClockBound struct {
	headgate.Bound
	now *atomic.Int64
}

func (b fixedClockBound) Apply(ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64) (headgate.Decision, error) {
	return b.Bound.Apply(ctx, at(now, b.now), key, verb, cost)
}

func at(now headgate.Instant, clock *atomic.Int64) headgate.Instant {
	if now == headgate.StoreClock {
		return headgate.Instant(clock.Load())
	}
	return now
}

// ask is one request.
type ask struct {
	algorithm headgate.Algorithm
	verb      headgate.Verb
	key       string
	cost      int64
}

// result is a response in a form that all APIs have in common: waits in ms, rounded up.
type result struct {
	Allowed    bool  `json:"allowed"`
	Limit      int64 `json:"limit"`
	Remaining  int64 `json:"remaining"`
	RetryAfter int64 `json:"retry_after_ms"`
	ResetAfter int64 `json:"reset_after_ms"`
	Delay      int64 `json:"delay_ms"`
	Never      bool  `json:"never"`
}

func ms(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func resultOf(d headgate.Decision) result {
	return result{d.Allowed, d.Limit, d.Remaining, ms(d.RetryAfter), ms(d.ResetAfter), ms(d.Delay), d.Never}
}

// limitText is one limit for every algorithm.
const limitText = "7/3s"

func policyOf(a headgate.Algorithm) headgate.Policy {
	text := limitText
	if a.OnlyHolds() {
		text = "7 concurrent"
	}
	return headgate.Policy{Name: string(a), Limits: []headgate.Limit{headgate.MustParseLimit(text)}, Algorithm: a}
}

// apis are all APIs over one engine, and the library over the same store.
type apis struct {
	library map[headgate.Algorithm]*headgate.Limiter
	http    *httptest.Server
	redis   *redis.Client
	envoy   pb.RateLimitServiceClient
}

func startAPIs(t *testing.T, store headgate.Store) *apis {
	d := &apis{library: make(map[headgate.Algorithm]*headgate.Limiter)}
	policies := make(map[string]headgate.Policy)
	rules := "domain: apis\ndescriptors:\n"
	for _, a := range algo.All() {
		p := policyOf(a.Name)
		limiter, err := headgate.New(store, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.library[a.Name], policies[p.Name] = limiter, p
		if a.Name.OnlyHolds() {
			continue
		}
		rules += fmt.Sprintf("  - {key: %s, rate_limit: {algorithm: %s, limits: [%q]}}\n", a.Name, a.Name, limitText)
	}
	d.start(t, store, policies, rules)
	return d
}

// start starts the network APIs: with policies, and with rules for Envoy.
func (d *apis) start(t *testing.T, store headgate.Store, policies map[string]headgate.Policy, rules string) {
	e, err := engine.New(store, &engine.Options{Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	d.http = httptest.NewServer(httpapi.New(e, nil))
	t.Cleanup(d.http.Close)
	d.startRedis(t, e)
	d.startEnvoy(t, e, rules)
}

// server is a server of any API.
type server interface {
	Serve(ln net.Listener) error
	Shutdown(ctx context.Context) error
}

func serve(t *testing.T, s server) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return ln.Addr().String()
}

func (d *apis) startRedis(t *testing.T, e *engine.Engine) {
	addr := serve(t, respapi.NewServer(respapi.New(e, &respapi.Options{Networked: true}), nil))
	d.redis = redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
	t.Cleanup(func() { _ = d.redis.Close() })
}

func (d *apis) startEnvoy(t *testing.T, e *engine.Engine, rules string) {
	config, err := envoyconfig.Parse([]envoyconfig.File{{Name: "apis.yaml", Content: []byte(rules)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := rlsapi.New(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Apply(config); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(serve(t, rlsapi.NewServer(h, nil)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	d.envoy = pb.NewRateLimitServiceClient(conn)
}

func (d *apis) askLibrary(t *testing.T, q ask) headgate.Decision {
	t.Helper()
	l, key := d.library[q.algorithm], "library:"+q.key
	var answer headgate.Decision
	var err error
	switch q.verb {
	case headgate.Peek:
		answer, err = l.PeekN(t.Context(), key, q.cost)
	case headgate.Refund:
		answer, err = l.RefundN(t.Context(), key, q.cost)
	default:
		answer, err = l.AllowN(t.Context(), key, q.cost)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (d *apis) askHTTP(t *testing.T, q ask) (answer result) {
	t.Helper()
	path := map[headgate.Verb]string{headgate.Take: "check", headgate.Peek: "peek", headgate.Refund: "refund"}[q.verb]
	body := fmt.Sprintf(`{"policy":%q,"key":%q,"cost":%d}`, q.algorithm, "http:"+q.key, q.cost)
	resp, err := http.Post(d.http.URL+"/v1/"+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[answer.Allowed]; resp.StatusCode != want {
		t.Errorf("%+v: status %d with %+v", q, resp.StatusCode, answer)
	}
	return answer
}

func (d *apis) askRedis(t *testing.T, q ask) result {
	t.Helper()
	command := map[headgate.Verb]string{headgate.Take: "HG.CHECK", headgate.Peek: "HG.PEEK", headgate.Refund: "HG.REFUND"}[q.verb]
	reply, err := d.redis.Do(t.Context(), command, string(q.algorithm), "redis:"+q.key, q.cost).Slice()
	if err != nil {
		t.Fatal(err)
	}
	fields := make(map[string]int64)
	for i := 0; i+1 < len(reply); i += 2 {
		if n, isNumber := reply[i+1].(int64); isNumber {
			fields[reply[i].(string)] = n
		}
	}
	return result{
		fields["allowed"] == 1, fields["limit"], fields["remaining"], fields["retry_after_ms"], fields["reset_after_ms"],
		fields["delay_ms"], fields["never"] == 1,
	}
}

func (d *apis) askEnvoy(t *testing.T, q ask) *pb.RateLimitResponse_DescriptorStatus {
	t.Helper()
	cost := q.cost
	if q.verb == headgate.Peek {
		cost = 0
	}
	answer, err := d.envoy.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{
		Domain: "apis",
		Descriptors: []*common.RateLimitDescriptor{{
			Entries:        []*common.RateLimitDescriptor_Entry{{Key: string(q.algorithm), Value: q.key}},
			HitsAddend:     wrapperspb.UInt64(uint64(cost)),
			IsNegativeHits: q.verb == headgate.Refund,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer.OverallCode != answer.Statuses[0].Code {
		t.Errorf("%+v: overall %v, the only descriptor %v", q, answer.OverallCode, answer.Statuses[0].Code)
	}
	return answer.Statuses[0]
}

// hold sends a request to every API and compares the responses with the library.
func (d *apis) compare(t *testing.T, q ask) {
	t.Helper()
	decision := d.askLibrary(t, q)
	want := resultOf(decision)
	if got := d.askHTTP(t, q); got != want {
		t.Errorf("HTTP, %+v: got %+v want %+v", q, got, want)
	}
	if got := d.askRedis(t, q); got != want {
		t.Errorf("RESP, %+v: got %+v want %+v", q, got, want)
	}
	got := d.askEnvoy(t, q)
	if allowed := got.Code == pb.RateLimitResponse_OK; q.verb != headgate.Peek && allowed != decision.Allowed || int64(got.LimitRemaining) != remaining(q, decision) {
		t.Errorf("gRPC, %+v: got %v want allowed %v, %d left", q, got, decision.Allowed, decision.Remaining)
	}
	if wait := got.DurationUntilReset.AsDuration(); !decision.Allowed && q.verb == headgate.Take && q.cost == 1 && wait != envoyWait(q, decision.RetryAfter) {
		t.Errorf("gRPC, %+v: denied for %v want %v", q, wait, decision.RetryAfter)
	}
}

// inEnvoysWords returns a wait as Envoy receives it: for a fixed window in whole seconds,
// rounded up.
func envoyWait(q ask, wait time.Duration) time.Duration {
	if q.algorithm == headgate.FixedWindow || q.algorithm.HasCalendar() {
		return (wait + time.Second - 1).Truncate(time.Second)
	}
	return wait
}

// remaining returns the remaining units as Envoy receives them: 0 for a denial.
func remaining(q ask, d headgate.Decision) int64 {
	if q.verb == headgate.Take && !d.Allowed {
		return 0
	}
	return d.Remaining
}

// TestAPIsReturnSameDecision sends one random timeline through the library, HTTP, RESP
// and Envoy's service, over memory, Redis and memcached.
func TestAPIsReturnSameDecision(t *testing.T) {
	t.Parallel()
	const start = 1_800_000_000_000_000
	stores := map[string]func(t *testing.T) (headgate.Store, int){
		"memory": func(*testing.T) (headgate.Store, int) { return memstore.New(nil), 3000 },
		"redis": func(t *testing.T) (headgate.Store, int) {
			store, err := redisstore.Open("redis://"+testserver.Redis(t).Addr(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return store, 1500
		},
		"memcached": func(t *testing.T) (headgate.Store, int) {
			store, err := memcachedstore.New(nil, testserver.Memcached(t).Addr())
			if err != nil {
				t.Fatal(err)
			}
			return store, 1500
		},
	}
	for name, make := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner, steps := make(t)
			t.Cleanup(func() { _ = inner.Close() })
			if testing.Short() {
				steps /= 5
			}
			var now atomic.Int64
			now.Store(start)
			d := startAPIs(t, fixedClock{inner, &now})
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 1))
			algorithms := algo.Rates()
			for range steps {
				now.Add(rng.Int64N(900_000))
				d.compare(t, ask{
					algorithm: algorithms[rng.IntN(len(algorithms))].Name,
					verb:      []headgate.Verb{headgate.Take, headgate.Take, headgate.Take, headgate.Peek, headgate.Refund}[rng.IntN(5)],
					key:       string(rune('a' + rng.IntN(3))),
					cost:      []int64{0, 1, 1, 1, 2, 3, 7, 8}[rng.IntN(8)],
				})
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}
