// Package goredis provides a [redisstore.Client] for an existing go-redis client.
package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/redisstore"
)

// Client returns a client for [redisstore.New]. It accepts a [redis.Client] (also one
// for Sentinel), a [redis.ClusterClient] or a [redis.Ring]. Closing the store closes
// the client.
//
// By default go-redis repeats a command after a network error. Commands of the store
// disable these retries, whatever the client's MaxRetries. A call ends with its
// context. The connection that it used becomes free after the client's ReadTimeout, or
// immediately with ContextTimeoutEnabled. A Ring moves the keys of a failed shard to
// other shards, where they start unused.
//
// Calls that the store sends together share one connection of the pool. rueidis, which
// [redisstore.Open] uses, shares one connection among all callers and is faster.
func Client(client redis.UniversalClient) redisstore.Client { return adapter{client} }

type adapter struct{ client redis.UniversalClient }

// noRetry is a command that go-redis must not send again.
type noRetry struct{ *redis.Cmd }

// NoRetry disables the retries of go-redis.
func (noRetry) NoRetry() bool { return true }

// Run sends all calls in one pipeline.
func (a adapter) Run(ctx context.Context, calls []redisstore.Call, replies []redisstore.Reply) {
	commands := make([]noRetry, len(calls))
	for i := range calls {
		commands[i] = command(ctx, &calls[i])
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.send(ctx, commands)
	}()
	select {
	case <-done:
		for i, c := range commands {
			replies[i].Text, replies[i].Err = c.Text()
		}
	case <-ctx.Done():
		for i := range replies {
			replies[i] = redisstore.Reply{Err: ctx.Err()}
		}
	}
}

// send executes the commands and stores the result in each of them.
func (a adapter) send(ctx context.Context, commands []noRetry) {
	if len(commands) == 1 {
		_ = a.client.Process(ctx, commands[0])
		return
	}
	pipeline := a.client.Pipeline()
	for _, c := range commands {
		_ = pipeline.Process(ctx, c) // only queues the command
	}
	_, _ = pipeline.Exec(ctx)
}

func command(ctx context.Context, call *redisstore.Call) noRetry {
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	if call.Load {
		args = append(args, "eval", call.Script)
	} else {
		args = append(args, "evalsha", call.SHA)
	}
	args = append(args, len(call.Keys))
	for _, key := range call.Keys {
		args = append(args, key)
	}
	for _, arg := range call.Args {
		args = append(args, arg)
	}
	return noRetry{redis.NewCmd(ctx, args...)}
}

// Sharded reports whether the keys of one call must be in one slot. It returns true for
// an unknown type of client.
func (a adapter) Sharded(context.Context) (bool, error) {
	_, single := a.client.(*redis.Client)
	return !single, nil
}

// Remove scans the keys of every master or shard.
func (a adapter) Remove(ctx context.Context, pattern string) error {
	each := func(ctx context.Context, node *redis.Client) error { return removeFrom(ctx, node, pattern) }
	switch c := a.client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, each)
	case *redis.Ring:
		return c.ForEachShard(ctx, each)
	default:
		return removeFrom(ctx, c, pattern)
	}
}

const scanCount = 1000 // keys that a server examines in one SCAN

func removeFrom(ctx context.Context, node redis.Cmdable, pattern string) error {
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		if err := unlink(ctx, node, keys); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// unlink removes keys one by one: keys of a cluster node may be in different slots.
func unlink(ctx context.Context, node redis.Cmdable, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Unlink(ctx, key)
		}
		return nil
	})
	return err
}

// Close closes the client.
func (a adapter) Close() { _ = a.client.Close() }
