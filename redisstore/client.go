package redisstore

import "context"

// Client is what a store requires of a Redis client. [Rueidis] and package goredis
// create one from an existing client.
type Client interface {
	// Run sends all calls in one pipeline and stores the reply of each call in replies,
	// which has the same length. It returns when ctx ends.
	//
	// Run must not send a call again unless the server reported that it did not execute
	// the call. If the server reported a temporary cause (MOVED, ASK), the client may
	// retry. Run may be called concurrently and must not retain the slices.
	Run(ctx context.Context, calls []Call, replies []Reply)

	// Sharded reports whether all keys of one call must be in one slot.
	Sharded(ctx context.Context) (bool, error)

	// Remove deletes all keys that match a glob pattern, on every node, in batches.
	Remove(ctx context.Context, pattern string) error

	// Close closes the client.
	Close()
}

// Call is one execution of a script: EVALSHA, or EVAL if Load is set.
type Call struct {
	Script string // the text of the script
	SHA    string // its SHA-1 in hexadecimal
	Load   bool   // send the text (EVAL)
	Keys   []string
	Args   []string
}

// Reply is the reply of a script, which is always a string.
type Reply struct {
	Text string
	Err  error
}
