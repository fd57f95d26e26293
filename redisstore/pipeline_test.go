package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

func limiter(t *testing.T, s headgate.Store, name string, a headgate.Algorithm, limit string) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(s, headgate.Policy{Name: name, Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// scriptCalls returns how many scripts the server has run since the last call.
func scriptCalls(t *testing.T, server *testserver.RedisServer) (calls int) {
	t.Helper()
	for _, line := range strings.Split(server.Do(t, "INFO", "commandstats").String(), "\n") {
		var n int
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &n); err == nil {
			calls += n
		}
	}
	server.Do(t, "CONFIG", "RESETSTAT")
	return calls
}

// Each caller gets a decision of its own. // T34
func TestConcurrentCallsOnOneKey(t *testing.T) {
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
		t.Run(string(a), func(t *testing.T) {
			server := testserver.Redis(t)
			l := limiter(t, open(t, "redis://"+server.Addr(), &redisstore.Options{Timeout: longTimeout}), "hot", a, "200/1h")
			left, denied := decideConcurrently(t, l, 300)
			if len(left) != 200 || denied != 100 {
				t.Errorf("got %d different numbers left and %d denied, want 200 and 100", len(left), denied)
			}
		})
	}
}

// decideConcurrently makes concurrent calls. It returns the set of Remaining of the
// allowed ones, and the number of denied ones.
func decideConcurrently(t *testing.T, l *headgate.Limiter, callers int) (left map[int64]bool, denied int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	left = map[int64]bool{}
	for range callers {
		wg.Go(func() {
			d, err := l.AllowAt(context.Background(), time.UnixMicro(1_790_000_000_000_000), "key", 1)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case d.Allowed:
				left[d.Remaining] = true
			default:
				denied++
			}
		})
	}
	wg.Wait()
	return left, denied
}

// An abusive client costs one script call for each unit that it gets, and few more.
func TestDenialCacheSavesCalls(t *testing.T) {
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.TokenBucketInterval, headgate.FixedWindow, headgate.SlidingWindow} {
		t.Run(string(a), func(t *testing.T) {
			server := testserver.Redis(t)
			l := limiter(t, open(t, "redis://"+server.Addr(), &redisstore.Options{Timeout: longTimeout, DenialCacheTTL: time.Hour}), "abused", a, "2/1h")
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for range 500 {
						if _, err := l.Allow(context.Background(), "abuser"); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if calls := scriptCalls(t, server); calls > 16 {
				t.Errorf("script calls for 8000 requests: got %d want a few", calls)
			}
		})
	}
}

// A refund ends cached denials: immediately in the store that refunds, and after
// DenialCacheTTL in another store.
func TestDenialCacheAfterRefund(t *testing.T) {
	server := testserver.Redis(t)
	ctx := context.Background()
	here := limiter(t, open(t, "redis://"+server.Addr(), nil), "api", headgate.TokenBucket, "1/1h")
	elsewhere := limiter(t, open(t, "redis://"+server.Addr(), nil), "api", headgate.TokenBucket, "1/1h")
	for _, l := range []*headgate.Limiter{here, here, elsewhere} {
		if _, err := l.Allow(ctx, "key"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := here.RefundN(ctx, "key", 1); err != nil {
		t.Fatal(err)
	}
	if d, err := here.Allow(ctx, "key"); err != nil || !d.Allowed {
		t.Errorf("after a refund: got %+v, error %v want allowed", d, err)
	}
	if _, err := here.Reset(ctx, "key"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(longTimeout); ; time.Sleep(20 * time.Millisecond) {
		d, err := elsewhere.Allow(ctx, "key")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("elsewhere, %v after a reset: got %+v, error %v want allowed", longTimeout, d, err)
		}
		if d.Allowed {
			return
		}
	}
}

// Two programs share no state unless they use the same namespace, and removing a
// namespace does not affect others. // T11
func TestNamespaces(t *testing.T) {
	server := testserver.Redis(t)
	ctx := context.Background()
	url := "redis://" + server.Addr() + "?namespace="
	shop := limiter(t, open(t, url+"shop", nil), "api", headgate.FixedWindow, "1/366d")
	blog := limiter(t, open(t, url+"blog", nil), "api", headgate.FixedWindow, "1/366d")
	if d, err := shop.Allow(ctx, "key"); err != nil || !d.Allowed {
		t.Fatalf("got %+v, error %v", d, err)
	}
	if d, err := blog.Allow(ctx, "key"); err != nil || !d.Allowed {
		t.Errorf("another namespace: got %+v, error %v want allowed", d, err)
	}
	if d, err := limiter(t, open(t, url+"shop", nil), "api", headgate.FixedWindow, "1/366d").Allow(ctx, "key"); err != nil || d.Allowed {
		t.Errorf("the same namespace: got %+v, error %v want denied", d, err)
	}
	ephemeral, err := redisstore.Open(url+"sh*p", &redisstore.Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
		if _, err := limiter(t, ephemeral, "api", a, "5/1h").Allow(ctx, "}{*?["); err != nil {
			t.Fatal(err)
		}
	}
	if err := ephemeral.Close(); err != nil {
		t.Fatal(err)
	}
	if left := server.Do(t, "KEYS", "*").Strings(); len(left) != 2 {
		t.Errorf("keys after the ephemeral store was closed: got %q want those of shop and blog", left)
	}
}
