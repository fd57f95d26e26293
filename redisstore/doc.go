// Package redisstore stores state in Redis (6.2 or later) or Valkey, where many
// processes share it. It supports a single server, Sentinel, and Cluster.
//
// # A decision
//
// One script call reads the key, takes the same exact step as the Go code in package
// algo, and writes the key with its TTL. Each algorithm has a Lua twin for this. The
// script returns the state that it found, and the Go code repeats the step to compute
// the full decision. The server's clock decides, so the clocks of callers may differ.
//
// The script is run by its SHA. If the server has not cached it, the store sends the
// text automatically. No call is sent twice unless the server reported that it did not
// run it. A lost reply is an error with an unknown result ([headgate.ReasonTimedOut]),
// never a second charge.
//
// # Concurrent callers
//
// A single caller sends its call immediately, on its own goroutine. Calls that arrive
// while others are in flight are batched. Operations on one key are one step, in the
// order of arrival, and each gets its own decision. Operations on different keys share
// one script call of at most 128 keys. In a cluster, keys are in different slots, so
// each key is a call of its own, and the calls are pipelined.
//
// If a key has nothing left, the store denies further requests from a local cache until
// the key has a unit again, for at most one second; see [Options.DenialCacheTTL].
// Batching and caching do not change any decision.
//
// # Several limits
//
// Several limits on one request are one all-or-nothing call if all keys may be in one
// call. They always may, except in a cluster. There, only the limits on one key may,
// and keys that [Options.Group] groups together. Other keys are charged simultaneously
// and refunded if one denies: see [Store.ApplyAll].
//
// # Keys and memory
//
// A Redis key is hg:{tag}:namespace:algorithm:scope:key. The tag, 128 bits of a hash,
// decides the slot, so that no text of a user does. The rest is escaped and readable. A
// key has at most 220 bytes.
//
// A state is a string of 25 bytes. A sliding log has 13 bytes, and 12 bytes for each
// instant at which something was spent (24 when Redis doubles its buffer). It stores at
// most 1,048,576 instants. Further units are counted with the newest instant, so the
// limit never allows too much.
//
// Every key has a TTL, set by the call that writes it. The TTL is rounded up to a
// millisecond and never shorter than the state is needed. The TTL of a key in use is up
// to a minute longer than needed. See docs/operations.md for memory, eviction,
// persistence and the minimal permissions of a user.
//
// # When Redis is unavailable
//
// A call ends with its context, or after [Options.Timeout]. If no decision was
// possible, it returns a [headgate.StoreError]. Package fallback wraps this store with
// one that decides locally in the meantime.
package redisstore
