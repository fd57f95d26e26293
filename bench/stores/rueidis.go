package stores

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench"
)

func newRueidis(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
}

// These scripts decide nothing. They show the minimum cost of a decision in a script.
const (
	empty      = `return 1`
	timeGetSet = `
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local was = tonumber(redis.call('GET', KEYS[1]) or now)
redis.call('SET', KEYS[1], string.format('%.0f', math.max(was, now) + 1), 'PX', ARGV[1])
return 1`
)

// script is a limiter that calls a script through rueidis, which pipelines concurrent
// calls.
type script struct {
	client rueidis.Client
	sha    string
}

func newScript(text string) func(string, bench.Limit) (Limiter, error) {
	return func(addr string, _ bench.Limit) (Limiter, error) {
		client, err := newRueidis(addr)
		if err != nil {
			return nil, err
		}
		sha, err := client.Do(context.Background(), client.B().ScriptLoad().Script(text).Build()).ToString()
		return &script{client, sha}, err
	}
}

func (s *script) Allow(ctx context.Context, key string) (bool, error) {
	n, err := s.client.Do(ctx, s.client.B().Evalsha().Sha1(s.sha).Numkeys(1).Key("bare:"+key).
		Arg(strconv.FormatInt(day.Milliseconds(), 10)).Build()).AsInt64()
	return n == 1, err
}

func (s *script) Close() error {
	s.client.Close()
	return nil
}

// counter is a fixed window, as limiters that use rueidis implement it, such as
// rueidislimiter. One script updates two keys: a counter, and the end of the window by
// the caller's clock.
type counter struct {
	client rueidis.Client
	script *rueidis.Lua
	limit  bench.Limit
}

const count = `
local ends = tonumber(redis.call('GET', KEYS[2]))
if not ends or ends < tonumber(ARGV[2]) then
  ends = tonumber(ARGV[3])
  redis.call('SET', KEYS[1], 0, 'PXAT', ARGV[3])
  redis.call('SET', KEYS[2], ARGV[3], 'PXAT', ARGV[3])
end
return {redis.call('INCRBY', KEYS[1], ARGV[1]), ends}`

func newCounter(addr string, limit bench.Limit) (Limiter, error) {
	client, err := newRueidis(addr)
	return &counter{client, rueidis.NewLuaScript(count), limit}, err
}

func (c *counter) Allow(ctx context.Context, key string) (bool, error) {
	now := time.Now()
	result, err := c.script.Exec(ctx, c.client, []string{"counter:{" + key + "}", "counter:{" + key + "}:ends"}, []string{
		"1", strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatInt(now.Add(c.limit.Window()).UnixMilli(), 10),
	}).AsIntSlice()
	return err == nil && result[0] <= int64(c.limit.Burst), err
}

func (c *counter) Close() error {
	c.client.Close()
	return nil
}
