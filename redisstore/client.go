package redisstore

import "context"

// Client is what a store needs of a Redis client. [Rueidis] and package goredis make one of a client that a program has already.
type Client interface {
	// Run sends all calls at once, pipelined, and writes the answer of each to replies, which has the same length. It ends with ctx.
	// It sends no call twice unless the server said that it did not run it; where it said so for a cause that passes (MOVED, ASK), the
	// client may try again. It may be called concurrently and keeps neither slice.
	Run(ctx context.Context, calls []Call, replies []Reply)

	// Sharded reports whether the keys of one call must be in one slot.
	Sharded(ctx context.Context) (bool, error)

	// Remove deletes all keys that match a glob pattern, on every node, a few at a time.
	Remove(ctx context.Context, pattern string) error

	// Close releases the client.
	Close()
}

// Call is one run of a script: EVALSHA, or EVAL if Load is set.
type Call struct {
	Script string // the text
	SHA    string // its SHA-1 in hexadecimal
	Load   bool
	Keys   []string
	Args   []string
}

// Reply is a script's answer, which is always a string.
type Reply struct {
	Text string
	Err  error
}
