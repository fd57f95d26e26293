package redisstore

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/redis/rueidis"
)

// Rueidis returns a [Client] that uses a rueidis client. It pipelines concurrent calls.
// It never sends a call again if the reply was lost. Closing the store does not close the
// rueidis client.
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

// maxAsked is the maximum number of nodes that Slots asks simultaneously.
const maxAsked = 8

// Slots asks several nodes for the slots, and returns the first answer; see [SlotLister].
func (c rueidisClient) Slots(ctx context.Context) ([]SlotRange, error) {
	type answer struct {
		ranges []SlotRange
		err    error
	}
	answers := make(chan answer, maxAsked)
	asked := 0
	// Other calls may wait for a connection that is opened here, so it must not end with
	// the first answer.
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	var asks sync.WaitGroup
	for address, node := range c.client.Nodes() { // in random order
		if asked == maxAsked {
			break
		}
		asked++
		asks.Go(func() {
			ranges, err := slotsOf(own, node, address)
			answers <- answer{ranges, err}
		})
	}
	go func() {
		asks.Wait()
		cancel()
	}()
	err := errors.New("the client knows no node")
	for range asked {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.ranges, nil
			}
			err = a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, err
}

// slotsOf returns the slots and their primaries as seen by a node. A node that does not
// know its own host name or address returns an empty host.
func slotsOf(ctx context.Context, node rueidis.Client, address string) ([]SlotRange, error) {
	entries, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	own, _, _ := net.SplitHostPort(address)
	var ranges []SlotRange
	for _, e := range entries {
		parts, err := e.ToArray()
		if err != nil || len(parts) < 3 {
			return nil, errors.New("unexpected reply to CLUSTER SLOTS")
		}
		first, err1 := parts[0].AsInt64()
		last, err2 := parts[1].AsInt64()
		primary, err3 := parts[2].ToArray()
		if err := errors.Join(err1, err2, err3); err != nil || len(primary) < 2 {
			return nil, errors.New("unexpected reply to CLUSTER SLOTS")
		}
		host, _ := primary[0].ToString()
		port, _ := primary[1].AsInt64()
		ranges = append(ranges, SlotRange{int(first), int(last), net.JoinHostPort(cmp.Or(host, own), strconv.FormatInt(port, 10))})
	}
	return ranges, nil
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
