package redisstore_test

import (
	"context"
	"errors"
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

// scriptCalls is how many scripts the server has run since it was last asked.
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

// TestCallersOfOneKeyGoTogether: they share script calls, and each gets an answer of his own. // T34
func TestCallersOfOneKeyGoTogether(t *testing.T) {
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
		t.Run(string(a), func(t *testing.T) {
			server := testserver.Redis(t)
			wire := testserver.Proxy(t, server.Addr())
			l := limiter(t, open(t, "redis://"+wire.Addr(), &redisstore.Options{Timeout: patient}), "hot", a, "200/1h")
			if _, err := l.Allow(context.Background(), "warm"); err != nil {
				t.Fatal(err)
			}
			scriptCalls(t, server)
			wire.SetLatency(20 * time.Millisecond) // so that all have come before the first has gone
			left, denied := askTogether(t, l, 300)
			if calls := scriptCalls(t, server); calls > 6 {
				t.Errorf("script calls: got %d want a few", calls)
			}
			if len(left) != 200 || denied != 100 {
				t.Errorf("got %d different numbers left and %d denied, want 200 and 100", len(left), denied)
			}
		})
	}
}

// askTogether is what so many callers at once are told: which numbers of units are left to those admitted, and how many are denied.
func askTogether(t *testing.T, l *headgate.Limiter, callers int) (left map[int64]bool, denied int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	left = map[int64]bool{}
	for range callers {
		wg.Go(func() {
			d, err := l.AllowAt(context.Background(), 1_790_000_000_000_000, "key", 1)
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

// TestDeniedCallersAskSeldom: an abuser costs a call for each unit that he gets, and hardly more.
func TestDeniedCallersAskSeldom(t *testing.T) {
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.TokenBucketInterval, headgate.FixedWindow, headgate.SlidingWindow} {
		t.Run(string(a), func(t *testing.T) {
			server := testserver.Redis(t)
			l := limiter(t, open(t, "redis://"+server.Addr(), nil), "abused", a, "2/1h")
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

// TestMemoryOfDenialsEndsWithARefund: who gives back here is known here, and elsewhere a second later at most.
func TestMemoryOfDenialsEndsWithARefund(t *testing.T) {
	server := testserver.Redis(t)
	ctx := context.Background()
	here := limiter(t, open(t, "redis://"+server.Addr(), nil), "api", headgate.TokenBucket, "1/1h")
	elsewhere := limiter(t, open(t, "redis://"+server.Addr(), nil), "api", headgate.TokenBucket, "1/1h")
	for _, l := range []*headgate.Limiter{here, here, elsewhere} {
		if _, err := l.Allow(ctx, "key"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := here.Refund(ctx, "key", 1); err != nil {
		t.Fatal(err)
	}
	if d, err := here.Allow(ctx, "key"); err != nil || !d.Allowed {
		t.Errorf("after a refund: got %+v, error %v want allowed", d, err)
	}
	if _, err := here.Reset(ctx, "key"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		d, err := elsewhere.Allow(ctx, "key")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("elsewhere, 3 s after a reset: got %+v, error %v want allowed", d, err)
		}
		if d.Allowed {
			return
		}
	}
}

// TestNamespaces: two programs share nothing, unless they say that they do; and what is to be removed is that of one. // T11
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
	passing, err := redisstore.Open(url+"sh*p", &redisstore.Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
		if _, err := limiter(t, passing, "api", a, "5/1h").Allow(ctx, "}{*?["); err != nil {
			t.Fatal(err)
		}
	}
	if err := passing.Close(); err != nil {
		t.Fatal(err)
	}
	if left := server.Do(t, "KEYS", "*").Strings(); len(left) != 2 {
		t.Errorf("keys after the third program has gone: got %q want those of shop and blog", left)
	}
}

// TestOneMoreThanMayWait: it is told so at once, and nothing is spent for it.
func TestOneMoreThanMayWait(t *testing.T) {
	server := testserver.Redis(t)
	l := limiter(t, open(t, "redis://"+server.Addr(), &redisstore.Options{MaxWaiting: 4, Timeout: patient}), "api", headgate.TokenBucket, "100/1h")
	if _, err := l.Allow(context.Background(), "key"); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	var wg sync.WaitGroup
	overloaded := make(chan struct{}, 50)
	for range 50 {
		wg.Go(func() {
			var e *headgate.StoreError
			if _, err := l.Allow(context.Background(), "key"); errors.As(err, &e) && e.Trouble == headgate.Overloaded {
				overloaded <- struct{}{}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	for range 50 - 13 { // three calls are under way, of one and of four twice, and four wait; or fewer
		<-overloaded
	}
	server.Continue()
	wg.Wait()
	decided := int64(13 - len(overloaded))
	if decided < 5 {
		t.Errorf("got %d decided want one under way and four who wait at least", decided)
	}
	if d, err := l.Peek(context.Background(), "key", 0); err != nil || d.Remaining != 100-1-decided {
		t.Errorf("got %d remaining, error %v want %d", d.Remaining, err, 100-1-decided)
	}
}

// TestManyGoTogether: where many come, a call waits for a good part of them, so that they cost the server less.
func TestManyGoTogether(t *testing.T) {
	const callers, each = 64, 100
	server := testserver.Redis(t)
	wire := testserver.Proxy(t, server.Addr())
	l := limiter(t, open(t, "redis://"+wire.Addr(), &redisstore.Options{Timeout: patient}), "many", headgate.TokenBucket, "1000/1h")
	if _, err := l.Allow(context.Background(), "warm"); err != nil {
		t.Fatal(err)
	}
	scriptCalls(t, server)
	wire.SetLatency(time.Millisecond)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range each {
				if _, err := l.Allow(context.Background(), fmt.Sprint(i, n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	calls := scriptCalls(t, server)
	t.Logf("%d script calls for %d callers", calls, callers*each)
	if most := callers * each / 21; calls > most {
		t.Errorf("script calls: got %d want at most %d", calls, most)
	}
}

// TestPatienceEnds: a call that takes its time does not hold up for long who came after it.
func TestPatienceEnds(t *testing.T) {
	const trip = 250 * time.Millisecond
	server := testserver.Redis(t)
	wire := testserver.Proxy(t, server.Addr())
	l := limiter(t, open(t, "redis://"+wire.Addr(), &redisstore.Options{Timeout: patient}), "late", headgate.TokenBucket, "1000/1h")
	ask := func(key string) {
		if _, err := l.Allow(context.Background(), key); err != nil {
			t.Error(err)
		}
	}
	for i := range 30 { // so that all connections are there
		ask(fmt.Sprint("warm", i))
	}
	wire.SetLatency(trip)
	var took time.Duration
	for range 5 { // on a busy machine the first do not all come at once, and three calls may be under way
		var wg sync.WaitGroup
		for range 1 + 24 { // one by himself, and so many that they are a call of their own
			wg.Go(func() { ask("hot") })
		}
		time.Sleep(trip / 4)
		began := time.Now()
		ask("later")
		took = time.Since(began)
		wg.Wait()
		if took < trip*3/2 {
			return
		}
	}
	t.Errorf("one who came while others were under way: got his answer after %v, want a round trip of %v", took, trip)
}
