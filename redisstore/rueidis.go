package redisstore

import (
	"context"

	"github.com/redis/rueidis"
)

// Rueidis returns a [Client] that uses a rueidis client. It pipelines concurrent calls.
// It never sends a call again if the reply was lost.
func Rueidis(client rueidis.Client) Client { return rueidisClient{client} }

type rueidisClient struct{ client rueidis.Client }

func (c rueidisClient) Run(ctx context.Context, calls []Call, replies []Reply) {
	if len(calls) == 1 {
		replies[0] = reply(c.client.Do(ctx, c.command(&calls[0])))
		return
	}
	commands := make([]rueidis.Completed, len(calls))
	for i := range calls {
		commands[i] = c.command(&calls[i])
	}
	for i, result := range c.client.DoMulti(ctx, commands...) {
		replies[i] = reply(result)
	}
}

func (c rueidisClient) command(call *Call) rueidis.Completed {
	if call.Load {
		return c.client.B().Eval().Script(call.Script).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
	}
	return c.client.B().Evalsha().Sha1(call.SHA).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

func reply(r rueidis.RedisResult) Reply {
	text, err := r.ToString()
	return Reply{Text: text, Err: err}
}

func (c rueidisClient) Sharded(context.Context) (bool, error) {
	return c.client.Mode() == rueidis.ClientModeCluster, nil
}

// Remove scans the keys of every node and deletes the keys that match pattern. A
// replica refuses to delete keys; they are deleted when its primary is scanned.
func (c rueidisClient) Remove(ctx context.Context, pattern string) error {
	for _, node := range c.client.Nodes() {
		if err := removeFrom(ctx, node, pattern); err != nil {
			return err
		}
	}
	return nil
}

const scanCount = 1000 // number of keys that a server examines in one SCAN

func removeFrom(ctx context.Context, node rueidis.Client, pattern string) error {
	for cursor := uint64(0); ; {
		entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		commands := make([]rueidis.Completed, len(entry.Elements))
		for i, key := range entry.Elements {
			commands[i] = node.B().Unlink().Key(key).Build()
		}
		for _, result := range node.DoMulti(ctx, commands...) {
			if e, ok := rueidis.IsRedisErr(result.Error()); result.Error() != nil && !ok || ok && !isRedirect(e) {
				return result.Error()
			}
		}
		if cursor = entry.Cursor; cursor == 0 {
			return nil
		}
	}
}

func isRedirect(e *rueidis.RedisError) bool {
	_, moved := e.IsMoved()
	_, ask := e.IsAsk()
	return moved || ask || e.IsTryAgain()
}

// Close closes the client.
func (c rueidisClient) Close() { c.client.Close() }
