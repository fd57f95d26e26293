package stores

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"slices"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/redisstore"
)

// readsAndWrites is a script that reads and writes the same values as headgate's script
// with the same commands, and replies with the same bytes. It takes no units: it writes
// the value that it has read. Its row is the maximum that headgate can reach with these
// commands and with its batches.
const readsAndWrites = `
local clock = redis.call('TIME')
local t = clock[1] * 1000000 + clock[2]
local expires = (clock[1] + 86400) * 1000
local values = #KEYS == 1 and {redis.call('GET', KEYS[1])} or redis.call('MGET', unpack(KEYS))
local reply = {struct.pack('<d', t)}
for i = 1, #KEYS do
  local value = values[i]
  reply[i + 1] = value or ('\0'):rep(25)
  if value and #KEYS > 1 then
    redis.call('SETRANGE', KEYS[i], '0', value)
  else
    redis.call('SET', KEYS[i], value or struct.pack('<BdI4I4d', 1, t, 0, 0, expires), 'PXAT', expires)
  end
end
return table.concat(reply)`

// floor is a limiter whose store sends readsAndWrites instead of headgate's script, with
// the same keys and arguments.
type floor struct {
	Limiter
	client rueidis.Client
}

func newFloor(addr string, limit bench.Limit) (Limiter, error) {
	client, err := newRueidis(addr)
	if err != nil {
		return nil, err
	}
	store, err := redisstore.New(&scriptClient{redisstore.Rueidis(client), readsAndWrites, sha(readsAndWrites)}, &redisstore.Options{Namespace: "floor"})
	if err != nil {
		client.Close()
		return nil, err
	}
	l, err := newOurs(store, limit)
	return &floor{l, client}, err
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis names scripts by their SHA-1
	return hex.EncodeToString(sum[:])
}

// Close closes headgate's store and the client.
func (f *floor) Close() error {
	defer f.client.Close()
	return f.Limiter.Close()
}

// scriptClient is a redisstore.Client that replaces the script of every call.
type scriptClient struct {
	redisstore.Client
	text, sha string
}

func (c *scriptClient) Run(ctx context.Context, calls []redisstore.Call, replies []redisstore.Reply) {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].Script, calls[i].SHA = c.text, c.sha
	}
	c.Client.Run(ctx, calls, replies)
}
