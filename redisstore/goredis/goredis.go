// Package goredis lets a [redisstore.Store] use a client of go-redis that a program holds already.
package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/redisstore"
)

// Client makes a client for [redisstore.New] of one of go-redis: a [redis.Client] (also one behind sentinels), a
// [redis.ClusterClient] or a [redis.Ring]. Closing the store closes it.
//
// go-redis sends a command again after an error of the network, unless told not to; commands of the store tell it not to, whatever
// the client's MaxRetries. A call ends with its context; the connection under it is free again when the client's ReadTimeout says
// so, or at once with ContextTimeoutEnabled. A Ring moves the keys of a shard that fails to others, where they begin anew.
//
// Calls that the store sends together share a connection; each takes one of the pool. rueidis, which [redisstore.Open] uses, shares
// one connection among all callers and is faster.
func Client(client redis.UniversalClient) redisstore.Client { return adapter{client} }

type adapter struct{ client redis.UniversalClient }

// once is a command that is not sent again.
type once struct{ *redis.Cmd }

// NoRetry tells go-redis so.
func (once) NoRetry() bool { return true }

// Run sends all calls at once.
func (a adapter) Run(ctx context.Context, calls []redisstore.Call, replies []redisstore.Reply) {
	commands := make([]once, len(calls))
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

// send leaves in each command what became of it.
func (a adapter) send(ctx context.Context, commands []once) {
	if len(commands) == 1 {
		_ = a.client.Process(ctx, commands[0])
		return
	}
	pipeline := a.client.Pipeline()
	for _, c := range commands {
		_ = pipeline.Process(ctx, c) // it is only put in line
	}
	_, _ = pipeline.Exec(ctx)
}

func command(ctx context.Context, call *redisstore.Call) once {
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
	return once{redis.NewCmd(ctx, args...)}
}

// Sharded reports whether the keys of one call must be in one slot: of a type that is not known they had better be.
func (a adapter) Sharded(context.Context) (bool, error) {
	_, single := a.client.(*redis.Client)
	return !single, nil
}

// Remove walks over the keys of every master, or shard.
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

const scanCount = 1000 // keys that a server looks at in one SCAN

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

// unlink removes keys one by one: those of a cluster's node need not be in one slot.
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
