package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// publishedScript is equivalent to the script in the Redis guides: it uses the caller's
// clock, takes one token a request, and sets no TTL. It returns whether the request is
// allowed and how many tokens are left.
const publishedScript = `
local key, now = KEYS[1], tonumber(ARGV[1])
local capacity, refill_rate, refill_interval = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local bucket = redis.call('HMGET', key, 'tokens', 'last_refill')
local tokens, last_refill = tonumber(bucket[1]), tonumber(bucket[2])
if tokens == nil then
	tokens = capacity
	last_refill = now
end
local refills = math.floor((now - last_refill) / refill_interval)
if refills > 0 then
	tokens = math.min(capacity, tokens + refills * refill_rate)
	last_refill = last_refill + refills * refill_interval
end
local allowed = 0
if tokens >= 1 then
	tokens = tokens - 1
	allowed = 1
end
redis.call('HSET', key, 'tokens', tokens, 'last_refill', last_refill)
return {allowed, tostring(tokens)}`

type guideBucket struct {
	capacity, rate int64
	interval       time.Duration
}

var guideBuckets = []guideBucket{
	{10, 1, time.Second},
	{10, 3, time.Second},
	{5, 5, 100 * time.Millisecond},
	{7, 2, 300 * time.Millisecond},
	{100, 1, 3 * time.Second},
	{3, 10, 1500 * time.Millisecond},
}

func (b guideBucket) limit() headgate.Limit {
	return headgate.Limit{Rate: b.rate, Period: b.interval, Burst: b.capacity}
}

// allowPublished runs the published script at an instant.
func (b guideBucket) allowPublished(t *testing.T, server *testserver.RedisServer, key string, at headgate.Instant) (allowed bool, tokens string) {
	t.Helper()
	seconds := float64(at/1e6) + float64(at%1e6)/1e6
	reply := server.Do(t, "EVAL", publishedScript, "1", key, strconv.FormatFloat(seconds, 'g', -1, 64),
		fmt.Sprint(b.capacity), fmt.Sprint(b.rate), strconv.FormatFloat(b.interval.Seconds(), 'g', -1, 64))
	return reply.Items[0].Int() == 1, reply.Items[1].String()
}

// nextInterval returns a random time until the next request: often 0, sometimes long,
// and often near the end of an interval.
func (b guideBucket) nextInterval(dice *rand.Rand) headgate.Instant {
	interval := b.interval.Microseconds()
	switch dice.IntN(8) {
	case 0, 1, 2:
		return 0
	case 3:
		return headgate.Instant(interval + dice.Int64N(3) - 1)
	case 4:
		return headgate.Instant(dice.Int64N(b.capacity * interval * 3))
	default:
		return headgate.Instant(dice.Int64N(interval))
	}
}

// Requests that alternate between the published script and this store have the same
// decisions as if the script had decided all of them.
func TestGuideLayoutMatchesPublishedScript(t *testing.T) {
	server := testserver.Redis(t)
	requests := 10_000 / len(guideBuckets)
	if testing.Short() {
		requests /= 10
	}
	for i, b := range guideBuckets {
		store := open(t, "redis://"+server.Addr()+"?layout=guide", nil)
		l, err := headgate.New(store, headgate.Policy{Name: fmt.Sprint(i), Algorithm: headgate.TokenBucketInterval, Limits: []headgate.Limit{b.limit()}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		dice := rand.New(rand.NewPCG(uint64(i), 7))
		at, shared, alone := headgate.Instant(1_790_000_000_123_456), fmt.Sprintf("user:%d", i), fmt.Sprintf("alone:%d", i)
		for n := range requests {
			at += b.nextInterval(dice)
			want, left := b.allowPublished(t, server, alone, at)
			var got bool
			if n%2 == 0 {
				got, _ = b.allowPublished(t, server, shared, at)
			} else {
				got = allowGuide(t, l, at, shared, left)
			}
			if got != want {
				t.Fatalf("%+v: request %d at %d: got allowed %v want %v, with %s left", b, n, at, got, want, left)
			}
		}
	}
}

func allowGuide(t *testing.T, l *headgate.Limiter, at headgate.Instant, key, left string) bool {
	t.Helper()
	d, err := l.AllowAt(context.Background(), at.Time(), key, 1)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(d.Remaining) != left {
		t.Errorf("at %d: got %d remaining want %s", at, d.Remaining, left)
	}
	if !d.Allowed {
		mustAllowExactlyAt(t, l, at, key, d.RetryAfter)
	}
	return d.Allowed
}

// mustAllowExactlyAt fails unless the key is allowed exactly RetryAfter later. // T25
func mustAllowExactlyAt(t *testing.T, l *headgate.Limiter, at headgate.Instant, key string, after time.Duration) {
	t.Helper()
	for _, c := range []struct {
		at   headgate.Instant
		want bool
	}{{at + headgate.Instant(after.Microseconds()) - 1, false}, {at + headgate.Instant(after.Microseconds()), true}} {
		if d, err := l.PeekAt(context.Background(), c.at.Time(), key, 1); err != nil || d.Allowed != c.want {
			t.Errorf("denied at %d for %v: peek at %d: got %+v, error %v want allowed %v", at, after, c.at, d, err, c.want)
		}
	}
}

// The key is exactly the caller's, in the layout of the guides. It expires, but not
// while its state matters. // T4
func TestGuideLayoutTTL(t *testing.T) {
	server := testserver.Redis(t)
	store := open(t, "redis://"+server.Addr(), &redisstore.Options{Layout: redisstore.LayoutGuide})
	l, err := headgate.New(store, headgate.Policy{
		Name: "api", Algorithm: headgate.TokenBucketInterval, Limits: []headgate.Limit{{Rate: 1, Period: time.Minute, Burst: 10}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Allow(context.Background(), "user:7"); err != nil || !d.Allowed || d.Remaining != 9 {
		t.Fatalf("first request: got %+v, error %v", d, err)
	}
	if got := server.Do(t, "HGET", "user:7", "tokens").String(); got != "9" {
		t.Errorf("tokens: got %q want 9", got)
	}
	if got := server.Do(t, "PTTL", "user:7").Int(); got < 60_000 || got > 2*24*3600*1000 {
		t.Errorf("TTL: got %d ms want a minute and a day", got)
	}
	server.Do(t, "PERSIST", "user:7")
	if d, err := l.PeekN(context.Background(), "user:7", 1); err != nil || d.Remaining != 9 {
		t.Fatalf("peek: got %+v, error %v", d, err)
	}
	if got := server.Do(t, "PTTL", "user:7").Int(); got < 60_000 {
		t.Errorf("TTL after PERSIST: got %d ms", got)
	}
	if d, err := l.RefundN(context.Background(), "user:7", 5); err != nil || d.Remaining != 10 {
		t.Errorf("refund: got %+v, error %v want 10 remaining", d, err)
	}
	if d, err := l.Reset(context.Background(), "user:7"); err != nil || d.Remaining != 10 || server.Do(t, "EXISTS", "user:7").Int() != 0 {
		t.Errorf("reset: got %+v, error %v want no key", d, err)
	}
	if _, err := l.Reserve(context.Background(), "user:7", 1, time.Second); err == nil {
		t.Error("reserve: got no error; the published scripts do not support reservations")
	}
}

// ApplyAll is all-or-nothing for guide buckets, too. // T3
func TestGuideLayoutApplyAll(t *testing.T) {
	server := testserver.Redis(t)
	store := open(t, "redis://"+server.Addr()+"?layout=guide", nil)
	limiter := func(name string, a headgate.Algorithm, limit string) *headgate.Limiter {
		l, err := headgate.New(store, headgate.Policy{Name: name, Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	guide, other := limiter("guide", headgate.TokenBucketInterval, "5/1h"), limiter("other", headgate.SlidingLog, "3/1h")
	const at = headgate.Instant(1_790_000_000_000_000)
	checks := []headgate.Check{{Limiter: guide, Key: "a", Cost: 1}, {Limiter: guide, Key: "b", Cost: 2}, {Limiter: other, Key: "a", Cost: 1}}
	for i, want := range []bool{true, true, false, false} {
		d, err := headgate.AllowAllAt(context.Background(), at.Time(), checks...)
		if err != nil || d.Allowed != want {
			t.Fatalf("request %d: got %+v, error %v want allowed %v", i+1, d, err, want)
		}
	}
	for key, want := range map[string]int64{"a": 3, "b": 1} {
		if d, err := guide.PeekAt(context.Background(), at.Time(), key, 0); err != nil || d.Remaining != want {
			t.Errorf("bucket %s: got %d remaining, error %v want %d", key, d.Remaining, err, want)
		}
	}
	if d, err := other.PeekAt(context.Background(), at.Time(), "a", 0); err != nil || d.Remaining != 1 {
		t.Errorf("log: got %d remaining, error %v want 1", d.Remaining, err)
	}
}

// guideLimiter returns a limiter for one policy of interval buckets.
func guideLimiter(t *testing.T, store *redisstore.Store, name string, limits ...string) (*headgate.Limiter, error) {
	t.Helper()
	p := headgate.Policy{Name: name, Algorithm: headgate.TokenBucketInterval}
	for _, l := range limits {
		p.Limits = append(p.Limits, headgate.MustParseLimit(l))
	}
	return headgate.New(store, p, nil)
}

// A bucket with more tokens than the capacity has the capacity, whether or not tokens are
// refilled. 30 of 30 were allowed under 5/1h after one request under 1000/1h.
func TestGuideLayoutLimitsTokensToCapacity(t *testing.T) {
	server := testserver.Redis(t)
	const at = headgate.Instant(1_790_000_000_000_000)
	for i, limit := range []string{"1000/1h", "5/1h"} {
		l, err := guideLimiter(t, open(t, "redis://"+server.Addr()+"?layout=guide", nil), fmt.Sprint(i), limit)
		if err != nil {
			t.Fatal(err)
		}
		admitted := 0
		for range 30 {
			d, err := l.AllowAt(t.Context(), at.Time(), "192.0.2.7", 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				admitted++
			}
			if i == 0 {
				break
			}
		}
		if want := []int{1, 5}[i]; admitted != want {
			t.Errorf("%s: got %d requests allowed want %d", limit, admitted, want)
		}
	}
}

// All rules of a store in this layout have the same keys, so a second rule is refused
// when it is bound. A changed limit is the same rule.
func TestGuideLayoutRefusesSharedBuckets(t *testing.T) {
	server := testserver.Redis(t)
	store := open(t, "redis://"+server.Addr()+"?layout=guide", nil)
	if _, err := guideLimiter(t, store, "login", "5/1h"); err != nil {
		t.Fatal(err)
	}
	if _, err := guideLimiter(t, store, "login", "10/1m"); err != nil {
		t.Errorf("a changed limit: got error %v", err)
	}
	for name, limits := range map[string][]string{"pages": {"1000/1h"}, "login": {"100/1h", "10/1m"}} {
		if _, err := guideLimiter(t, store, name, limits...); !errors.Is(err, headgate.ErrUnsupported) {
			t.Errorf("policy %s with limits %q: got error %v want ErrUnsupported", name, limits, err)
		}
	}
	if _, err := headgate.New(store, headgate.Policy{Name: "pages", Limits: []headgate.Limit{headgate.MustParseLimit("5/1s"), headgate.MustParseLimit("9/1m")}}, nil); err != nil {
		t.Errorf("another algorithm: got error %v", err)
	}
}

// hashOf returns the fields of a hash and their values as text.
func hashOf(t *testing.T, server *testserver.RedisServer, key string) (text string) {
	t.Helper()
	for _, item := range server.Do(t, "HGETALL", key).Items {
		text += item.String() + " "
	}
	return text
}

// A hash of another program is neither changed nor deleted, and gets no TTL.
func TestGuideLayoutKeepsForeignHashes(t *testing.T) {
	server := testserver.Redis(t)
	l, err := guideLimiter(t, open(t, "redis://"+server.Addr()+"?layout=guide", nil), "api", "5/1h")
	if err != nil {
		t.Fatal(err)
	}
	for key, fields := range map[string][]string{
		"session:42": {"user", "bob", "role", "admin"},
		"cart:7":     {"tokens", "9"},
		"wallet:1":   {"tokens", "9", "last_refill", "1", "owner", "bob"},
		"wallet:2":   {"tokens", "9", "owner", "bob"},
	} {
		server.Do(t, append([]string{"HSET", key}, fields...)...)
		before := hashOf(t, server, key)
		for verb, call := range map[string]func() (headgate.Decision, error){
			"take":   func() (headgate.Decision, error) { return l.Allow(t.Context(), key) },
			"peek":   func() (headgate.Decision, error) { return l.Peek(t.Context(), key) },
			"refund": func() (headgate.Decision, error) { return l.Refund(t.Context(), key) },
			"reset":  func() (headgate.Decision, error) { return l.Reset(t.Context(), key) },
		} {
			var failure *headgate.StoreError
			if _, err := call(); !errors.As(err, &failure) || failure.Reason != headgate.ReasonWrongType {
				t.Errorf("%s of %s: got error %v want reason %v", verb, key, err, headgate.ReasonWrongType)
			}
		}
		if got := hashOf(t, server, key); got != before {
			t.Errorf("%s: got %s want it unchanged: %s", key, got, before)
		}
		if got := server.Do(t, "PTTL", key).Int(); got != -1 {
			t.Errorf("%s: got a TTL of %d ms want none", key, got)
		}
	}
}

// A denied request and a cost of 0 change nothing, also under another capacity.
func TestGuideLayoutDenialChangesNothing(t *testing.T) {
	server := testserver.Redis(t)
	store := open(t, "redis://"+server.Addr()+"?layout=guide", nil)
	first, _ := guideLimiter(t, store, "api", "10/7d")
	const at = headgate.Instant(1_790_000_000_000_000)
	if d, err := first.AllowAt(t.Context(), at.Time(), "user:7", 1); err != nil || !d.Allowed {
		t.Fatalf("first request: got %+v, error %v", d, err)
	}
	before, ttl := hashOf(t, server, "user:7"), server.Do(t, "PTTL", "user:7").Int()
	changed, _ := guideLimiter(t, store, "api", "2/1s")
	for _, cost := range []int64{3, 0} {
		if _, err := changed.AllowAt(t.Context(), at.Time().Add(time.Minute), "user:7", cost); err != nil {
			t.Fatal(err)
		}
	}
	if got := hashOf(t, server, "user:7"); got != before {
		t.Errorf("after a denial: got %s want it unchanged: %s", got, before)
	}
	if got := server.Do(t, "PTTL", "user:7").Int(); got < ttl-60_000 {
		t.Errorf("TTL after a denial: got %d ms want about %d", got, ttl)
	}
}
