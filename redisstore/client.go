package redisstore

import "context"

// Client has the operations of a Redis client that a store requires. [Rueidis] and
// package goredis create a Client from an existing client.
type Client interface {
	// Run sends all calls in one pipeline. It stores the reply to calls[i] in
	// replies[i]; replies has the same length as calls. It returns when all replies
	// have arrived or when ctx ends.
	//
	// Run must not send a call again unless the server reported that it did not execute
	// the call. If the server reported a temporary cause (MOVED, ASK), Run may send the
	// call again. Run may be called concurrently and must not retain the slices.
	Run(ctx context.Context, calls []Call, replies []Reply)

	// Sharded reports whether all keys of a call must be in one hash slot.
	Sharded(ctx context.Context) (bool, error)

	// Remove deletes all keys that match a glob pattern, on every node, in batches.
	Remove(ctx context.Context, pattern string) error
}

// Call is one execution of a script: EVALSHA, or EVAL if Load is set.
type Call struct {
	Script string // the text of the script
	SHA    string // SHA-1 of Script, in hexadecimal
	Load   bool   // whether to send the text (EVAL)
	Keys   []string
	Args   []string
}

// Reply is the reply to a script call, which is always a string, or an error.
type Reply struct {
	Text string
	Err  error
}
