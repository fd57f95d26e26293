// Package goredis provides a [redisstore.Client] for an existing go-redis client.
package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/redisstore"
)

// Client returns a client for [redisstore.New] that uses client: a [redis.Client] (also
// a failover client for Sentinel), a [redis.ClusterClient] or a [redis.Ring]. Closing
// the store does not close the go-redis client.
//
// By default go-redis sends a command again after a network error. For the commands of
// the store these retries are disabled, whatever MaxRetries of the client is. A call
// returns when its context ends. The connection that it used is then blocked until the
// client's ReadTimeout or, with ContextTimeoutEnabled, released immediately. If a shard
// fails, a Ring moves its keys to other shards, where the keys start unused.
//
// go-redis trusts the lengths in replies. [CheckReplies] limits them.
//
// Calls that the store sends together use one connection of the pool. The rueidis
// client, which [redisstore.Open] uses, shares one connection among all callers and is
// faster.
func Client(client redis.UniversalClient) redisstore.Client { return adapter{client} }

type adapter struct{ client redis.UniversalClient }

// noRetry is a command that go-redis must not send again.
type noRetry struct{ *redis.Cmd }

// NoRetry disables the retries of go-redis.
func (noRetry) NoRetry() bool { return true }

// Run sends all calls in one pipeline and stores the reply of each call. It returns
// when ctx ends.
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

// send executes the commands. Each command stores its own result.
func (a adapter) send(ctx context.Context, commands []noRetry) {
	if len(commands) == 1 {
		_ = a.client.Process(ctx, commands[0])
		return
	}
	pipeline := a.client.Pipeline()
	for _, c := range commands {
		_ = pipeline.Process(ctx, c) // Process only queues the command
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

// Sharded reports whether the keys of a call must be in one hash slot. It returns true
// for an unknown type of client.
func (a adapter) Sharded(context.Context) (bool, error) {
	_, single := a.client.(*redis.Client)
	return !single, nil
}

// Slots asks all nodes of a cluster for the slots, and returns the first answer. It
// returns nothing for a Ring, which has no slots.
func (a adapter) Slots(ctx context.Context) ([]redisstore.SlotRange, error) {
	c, ok := a.client.(*redis.ClusterClient)
	if !ok {
		return nil, nil
	}
	answers, ended := make(chan []redis.ClusterSlot, 1), make(chan error, 1)
	go func() {
		ended <- c.ForEachShard(context.WithoutCancel(ctx), func(ctx context.Context, node *redis.Client) error {
			// The method ClusterSlots is deprecated, but Redis 6.2 has no CLUSTER SHARDS.
			cmd := redis.NewClusterSlotsCmd(ctx, "cluster", "slots")
			_ = node.Process(ctx, cmd) // Result returns the same error
			slots, err := cmd.Result()
			if err == nil {
				select {
				case answers <- slots:
				default: // another node has answered
				}
			}
			return err
		})
	}()
	select {
	case slots := <-answers:
		return rangesOf(slots), nil
	case err := <-ended:
		select {
		case slots := <-answers:
			return rangesOf(slots), nil
		default:
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func rangesOf(slots []redis.ClusterSlot) (ranges []redisstore.SlotRange) {
	for _, s := range slots {
		if len(s.Nodes) > 0 {
			ranges = append(ranges, redisstore.SlotRange{First: s.Start, Last: s.End, Node: s.Nodes[0].Addr})
		}
	}
	return ranges
}

// Remove deletes the keys that match pattern, on every master of a cluster or every
// shard of a Ring.
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

const scanCount = 1000 // number of keys that a server examines in one SCAN

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

// unlink removes each key by a command of its own, because the keys of a cluster node
// may be in different hash slots.
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
