// Package migrate contains the Go code of the pages in docs/migrate. Its tests run that
// code against a memory store or a Redis server.
package migrate

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/redis/go-redis/v9"
)

func TestTimeRate(t *testing.T) {
	t.Parallel()
	ctx, userID := t.Context(), "42"
	// [snippet time-rate]
	limiter, err := headgate.New(memstore.New(nil), headgate.MustPolicy("10/s burst 20"), nil)
	if err != nil {
		return
	}
	d, err := limiter.Allow(ctx, userID)
	// [end time-rate]
	if err != nil || !d.Allowed || d.Limit != 20 {
		t.Errorf("got %+v, %v", d, err)
	}
	if err := limiter.Wait(ctx, userID); err != nil {
		t.Error(err)
	}
}

func TestRedisRate(t *testing.T) {
	t.Parallel()
	limiter, err := newLimiter("redis://" + testserver.Redis(t).Addr() + "?timeout=1m")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false} {
		d, err := limiter.AllowN(t.Context(), "project:123", 10)
		if err != nil || d.Allowed != want {
			t.Errorf("request %d: got %+v, %v, want %v", i+1, d, err, want)
		}
	}
}

// [snippet redis-rate]
func newLimiter(url string) (*headgate.Limiter, error) {
	store, err := redisstore.Open(url, nil) // redis://127.0.0.1:6379
	if err != nil {
		return nil, err
	}
	return headgate.New(store, headgate.MustNamedPolicy("api", "10/h burst 20"), nil)
}

// [end redis-rate]

func TestUlule(t *testing.T) {
	t.Parallel()
	header := denial(t, limitAddresses, 1000)
	for _, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Retry-After"} {
		if header.Get(name) == "" {
			t.Errorf("the denial has no %s", name)
		}
	}
}

// [snippet ulule]
func limitAddresses(store headgate.Store, next http.Handler) (http.Handler, error) {
	limit, err := httplimit.New(store, &httplimit.Options{
		Fields: &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.XRateLimitEpoch}},
	}, httplimit.Charge{
		Policy: headgate.Policy{
			Name:      "api",
			Limits:    []headgate.Limit{headgate.MustParseLimit("1000/h")},
			Algorithm: headgate.FixedWindow,
		},
	})
	if err != nil {
		return nil, err
	}
	return limit(next), nil
}

// [end ulule]

func TestHTTPRate(t *testing.T) {
	t.Parallel()
	header := denial(t, limitEndpoints, 100)
	if header.Get("Retry-After") == "" {
		t.Error("the denial has no Retry-After")
	}
}

// [snippet httprate]
func limitEndpoints(store headgate.Store, next http.Handler) (http.Handler, error) {
	limit, err := httplimit.New(store, nil, httplimit.Charge{
		Policy: headgate.Policy{
			Name:      "api",
			Limits:    []headgate.Limit{headgate.MustParseLimit("100/1m")},
			Algorithm: headgate.SlidingWindow,
		},
		Key: httplimit.Join(httplimit.Address(), httplimit.Path()),
	})
	if err != nil {
		return nil, err
	}
	return limit(next), nil
}

// [end httprate]

// denial sends requests until one is denied, and returns the header of that response. A
// window may end in the meantime, so up to twice the limit may be allowed.
func denial(t *testing.T, wrap func(headgate.Store, http.Handler) (http.Handler, error), limit int) http.Header {
	t.Helper()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	handler, err := wrap(memstore.New(nil), hello)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2*limit + 1 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code == http.StatusTooManyRequests && i >= limit {
			return w.Header()
		}
		if w.Code != http.StatusOK {
			t.Fatalf("request %d: got %d", i+1, w.Code)
		}
	}
	t.Fatalf("%d requests were allowed", 2*limit+1)
	return nil
}

// The bucket is the hash of the guides' script, at the caller's key.
func TestGuideScript(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	limiter, err := newGuideLimiter("redis://" + server.Addr() + "?layout=guide&timeout=1m")
	if err != nil {
		t.Fatal(err)
	}
	d, err := limiter.Allow(t.Context(), "user:42")
	if err != nil || !d.Allowed || d.Remaining != 9 {
		t.Fatalf("got %+v, %v", d, err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	defer rdb.Close()
	bucket, err := rdb.HGetAll(t.Context(), "user:42").Result()
	if err != nil || bucket["tokens"] != "9" || bucket["last_refill"] == "" {
		t.Errorf("the hash is %v, %v", bucket, err)
	}
}

// [snippet guide]
func newGuideLimiter(url string) (*headgate.Limiter, error) {
	store, err := redisstore.Open(url, nil) // redis://127.0.0.1:6379?layout=guide
	if err != nil {
		return nil, err
	}
	return headgate.New(store, headgate.Policy{
		Name:      "api",
		Limits:    []headgate.Limit{headgate.MustParseLimit("1/1h burst 10")},
		Algorithm: headgate.TokenBucketInterval,
	}, nil)
}

// [end guide]

func TestRedisList(t *testing.T) {
	t.Parallel()
	ctx, store, address, iface := t.Context(), memstore.New(nil), "203.0.113.9", "orders"
	// [snippet list]
	limiter, err := headgate.New(store, headgate.Policy{
		Name:      "calls",
		Limits:    []headgate.Limit{headgate.MustParseLimit("3/5s")},
		Algorithm: headgate.SlidingLog,
	}, nil)
	if err != nil {
		return
	}
	d, err := limiter.Allow(ctx, fmt.Sprintf("%q %q", address, iface))
	// [end list]
	if err != nil || !d.Allowed || d.Remaining != 2 {
		t.Errorf("got %+v, %v", d, err)
	}
}

// Only wrong passwords use up the limits.
func TestLoginCounters(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	policy := func(name, limit string) headgate.Policy {
		p := headgate.MustNamedPolicy(name, limit)
		p.Algorithm = headgate.SlidingLog
		return p
	}
	byAddress, err := headgate.New(store, policy("address", "20/24h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	byAccount, err := headgate.New(store, policy("account", "2/24h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	right := func() bool { return true }
	wrong := func() bool { return false }
	for i, c := range []struct {
		password func() bool
		denied   bool
	}{{right, false}, {right, false}, {wrong, false}, {wrong, false}, {right, true}} {
		d, err := login(t.Context(), byAddress, byAccount, "203.0.113.9", "ada", c.password)
		if err != nil || d.Allowed == c.denied {
			t.Errorf("attempt %d: got %+v, %v", i+1, d, err)
		}
	}
}

// [snippet login]
func login(
	ctx context.Context, byAddress, byAccount *headgate.Limiter, address, account string, passwordIsRight func() bool,
) (headgate.Decision, error) {
	checks := []headgate.Check{
		{Limiter: byAddress, Key: address, Cost: 1}, // sliding_log
		{Limiter: byAccount, Key: account, Cost: 1}, // sliding_log
	}
	d, err := headgate.AllowAll(ctx, checks...) // both are charged, or neither
	if err != nil || !d.Allowed || !passwordIsRight() {
		return d, err
	}
	for _, c := range checks {
		if _, err := c.Limiter.RefundN(ctx, c.Key, c.Cost); err != nil {
			return d, err
		}
	}
	return d, nil
}

// [end login]
