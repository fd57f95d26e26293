package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

const testInstant = headgate.Instant(1_790_000_000_000_000)

func limiterOf(t testing.TB, s headgate.Store, name string, a headgate.Algorithm, limits ...string) *headgate.Limiter {
	t.Helper()
	p := headgate.MustPolicy(limits...)
	p.Name, p.Algorithm = name, a
	l, err := headgate.New(s, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// 32 limiters with 32 limits each are one request.
func TestMaxLimits(t *testing.T) {
	server := testserver.Redis(t)
	s := open(t, "redis://"+server.Addr(), nil)
	m := memstore.New(nil)
	defer m.Close()
	var redisChecks, memoryChecks []headgate.Check
	for i := range headgate.MaxLimits {
		var limits []string
		for j := range headgate.MaxLimits {
			limits = append(limits, fmt.Sprintf("%d/1h", 2+32*i+j))
		}
		redisChecks = append(redisChecks, headgate.Check{Limiter: limiterOf(t, s, fmt.Sprint(i), "", limits...), Key: "a", Cost: 1})
		memoryChecks = append(memoryChecks, headgate.Check{Limiter: limiterOf(t, m, fmt.Sprint(i), "", limits...), Key: "a", Cost: 1})
	}
	for range 3 {
		got, err := headgate.AllowAllAt(context.Background(), testInstant.Time(), redisChecks...)
		want, _ := headgate.AllowAllAt(context.Background(), testInstant.Time(), memoryChecks...)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %+v, error %v want %+v", got, err, want)
		}
	}
}

// A key with a foreign value is an error of the calls on that key, and of no other call
// in the batch.
func TestForeignValueInBatch(t *testing.T) {
	for _, kind := range []string{"LPUSH", "APPEND"} {
		for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
			t.Run(kind+" "+string(a), func(t *testing.T) {
				server := testserver.Redis(t)
				s := open(t, "redis://"+server.Addr(), nil)
				checkForeignValueInBatch(t, server, s, kind, a)
			})
		}
	}
}

func checkForeignValueInBatch(t *testing.T, server *testserver.RedisServer, s *redisstore.Store, kind string, a headgate.Algorithm) {
	l := limiterOf(t, s, "x", a, "1000/1h")
	others := []*headgate.Limiter{limiterOf(t, s, "b", headgate.TokenBucket, "1000/1h"), limiterOf(t, s, "c", headgate.SlidingLog, "1000/1h")}
	ctx := context.Background()
	if _, err := l.AllowN(ctx, "bad", 1); err != nil {
		t.Fatal(err)
	}
	name := server.Do(t, "KEYS", "*").Strings()[0]
	server.Do(t, "DEL", name)
	server.Do(t, kind, name, "something else")
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			for n := range 40 {
				if i%2 == 0 {
					l := others[i/2%2]
					if _, err := l.AllowN(ctx, fmt.Sprint(i/4), 1); err != nil {
						t.Errorf("a good key: got error %v", err)
						return
					}
					continue
				}
				var known *headgate.StoreError
				d, err := l.Peek(ctx, "bad")
				if n%2 == 0 {
					d, err = l.AllowN(ctx, "bad", 1)
				}
				if !errors.As(err, &known) || known.Reason != headgate.ReasonWrongType {
					t.Errorf("a foreign key: got %+v, error %v want wrong type", d, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Whatever another program wrote into the fields, each call returns a decision or an
// error.
func TestGuideLayoutInvalidNumbers(t *testing.T) {
	server := testserver.Redis(t)
	s := open(t, "redis://"+server.Addr()+"?layout=guide", nil)
	l := limiterOf(t, s, "x", headgate.TokenBucketInterval, "10/1s")
	odd := []string{"", "x", "nan", "-nan", "inf", "-inf", "1e300", "-1e300", "20261121145000", "1.79e15", "-1", "0x10", "1e17", "9.2e12", "0.5"}
	for i, tokens := range odd {
		for j, last := range odd {
			key := fmt.Sprintf("%d:%d", i, j)
			server.Do(t, "HSET", key, "tokens", tokens, "last_refill", last)
			for _, verb := range []headgate.Verb{headgate.Peek, headgate.Take, headgate.Refund} {
				ended := make(chan headgate.Decision, 1)
				go func() {
					d, err := applyGuide(l, key, verb)
					if err != nil {
						d = headgate.Decision{}
					}
					ended <- d
				}()
				select {
				case d := <-ended:
					if d.Remaining < 0 || d.RetryAfter < 0 || d.ResetAfter < 0 || d.Allowed && d.Remaining == 0 && tokens == "1e300" {
						t.Errorf("tokens %q, last_refill %q, %v: got %+v", tokens, last, verb, d)
					}
				case <-time.After(longTimeout):
					t.Fatalf("tokens %q, last_refill %q: %v does not end", tokens, last, verb)
				}
			}
		}
	}
}

func applyGuide(l *headgate.Limiter, key string, verb headgate.Verb) (headgate.Decision, error) {
	switch verb {
	case headgate.Peek:
		return l.PeekAt(context.Background(), testInstant.Time(), key, 1)
	case headgate.Take:
		return l.AllowAt(context.Background(), testInstant.Time(), key, 1)
	default:
		return l.RefundAt(context.Background(), testInstant.Time(), key, 1)
	}
}

// A key with another kind of value belongs to the caller and is not deleted.
func TestGuideLayoutResetForeignKey(t *testing.T) {
	server := testserver.Redis(t)
	l := limiterOf(t, open(t, "redis://"+server.Addr()+"?layout=guide", nil), "x", headgate.TokenBucketInterval, "10/1s")
	server.Do(t, "SET", "user:7", "a session")
	var known *headgate.StoreError
	if _, err := l.Reset(context.Background(), "user:7"); !errors.As(err, &known) || known.Reason != headgate.ReasonWrongType {
		t.Errorf("reset: got error %v want wrong type", err)
	}
	if got := server.Do(t, "GET", "user:7").String(); got != "a session" {
		t.Errorf("after a reset: got %q want it unchanged", got)
	}
}

// A bucket that another limit has carried over is not denied from the cache, even if
// the clock stepped back in between.
func TestDenialCacheAfterLimitChange(t *testing.T) {
	server := testserver.Redis(t)
	m := memstore.New(nil)
	defer m.Close()
	var answers [2][]headgate.Decision
	for i, s := range []headgate.Store{open(t, "redis://"+server.Addr(), nil), m} {
		slow, fast := limiterOf(t, s, "x", "", "1/1h"), limiterOf(t, s, "x", "", "10/1s")
		for _, step := range []struct {
			l  *headgate.Limiter
			at headgate.Instant
		}{{slow, 0}, {slow, 0}, {fast, -1_000_000}, {slow, 0}} {
			d, err := step.l.AllowAt(context.Background(), (testInstant + step.at).Time(), "a", 1)
			if err != nil {
				t.Fatal(err)
			}
			answers[i] = append(answers[i], d)
		}
	}
	if got, want := fmt.Sprint(answers[0]), fmt.Sprint(answers[1]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A key that is denied while a charge on two nodes is in progress is allowed again
// after the undo.
func TestDenialCacheAfterUndo(t *testing.T) {
	cluster := testserver.Cluster(t, 3, 0)
	url := "redis+cluster://" + cluster.Addrs()[0]
	s := open(t, url, nil)
	l := limiterOf(t, s, "x", headgate.FixedWindow, "1/366d") // no window begins during the test
	ctx := context.Background()
	if d, err := l.Allow(ctx, "full"); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	for i := range 300 {
		key := fmt.Sprint(i)
		denied := make(chan error)
		go func() {
			_, err := headgate.AllowAll(ctx, headgate.Check{Limiter: l, Key: key, Cost: 1}, headgate.Check{Limiter: l, Key: "full", Cost: 1})
			denied <- err
		}()
		for range 3 {
			if d, err := l.PeekN(ctx, key, 1); err != nil || !d.Allowed {
				break
			}
		}
		d, err := l.Allow(ctx, key)
		if err := <-denied; err != nil {
			t.Fatal(err)
		}
		if err == nil && !d.Allowed {
			if d, err := l.Allow(ctx, key); err != nil || !d.Allowed {
				t.Fatalf("key %s, once the charge was undone: got %+v, error %v want allowed", key, d, err)
			}
		}
	}
}

// A peek under another limit changes nothing, even if the key is unused under that
// limit.
func TestPeekWithOtherLimit(t *testing.T) {
	server := testserver.Redis(t)
	s := open(t, "redis://"+server.Addr(), &redisstore.Options{DenialCacheTTL: -1})
	ctx := context.Background()
	for _, a := range []headgate.Algorithm{headgate.TokenBucketInterval, headgate.SlidingLog, headgate.SlidingWindow} {
		slow, fast := limiterOf(t, s, "x", a, "2/24h"), limiterOf(t, s, "x", a, "1000/1ms")
		if d, err := slow.AllowAt(ctx, testInstant.Time(), "a", 2); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		const later = testInstant + 5000 // µs
		if _, err := fast.PeekAt(ctx, later.Time(), "a", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := headgate.PeekAllAt(ctx, later.Time(), headgate.Check{Limiter: fast, Key: "a", Cost: 1}); err != nil {
			t.Fatal(err)
		}
		if d, err := slow.AllowAt(ctx, later.Time(), "a", 1); err != nil || d.Allowed {
			t.Errorf("%s: got %+v, error %v want a denial", a, d, err)
		}
	}
}

// A peek at a much later instant does not shorten the TTL.
func TestPeekKeepsTTL(t *testing.T) {
	server := testserver.Redis(t)
	s := open(t, "redis://"+server.Addr(), nil)
	ctx := context.Background()
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.FixedWindow, headgate.SlidingLog} {
		l := limiterOf(t, s, "x", a, "100/300d")
		d, err := l.AllowN(ctx, "a", 100)
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		later := headgate.InstantOf(time.Now().Add(d.ResetAfter - time.Hour))
		if _, err := l.PeekAt(ctx, later.Time(), "a", 1); err != nil {
			t.Fatal(err)
		}
		name := server.Do(t, "KEYS", "*").Strings()[0]
		if got := time.Duration(server.Do(t, "PTTL", name).Int()) * time.Millisecond; got < d.ResetAfter-time.Minute {
			t.Errorf("%s: TTL after a peek: got %v want %v", a, got, d.ResetAfter)
		}
		server.Do(t, "DEL", name)
	}
}
