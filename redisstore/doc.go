// Package redisstore stores state in Redis (6.2 or later) or Valkey, where many
// processes share it. It supports a single server, Sentinel, and Cluster.
//
// # A decision
//
// A decision is one script call. The script reads the key, executes the algorithm's
// step, and writes the key with its TTL. Each algorithm exists in Go (package algo) and
// in Lua, with exactly the same results. The script returns the state that it found,
// and the Go code repeats the step on that state to compute the full decision. The
// server's clock decides, so the clocks of callers may differ.
//
// The script is called by its SHA-1. If the server has not cached the script, the store
// automatically sends the text. No call is sent twice unless the server reported that
// it did not execute the call. If a reply is lost, the call fails with
// [headgate.ReasonTimedOut]: whether the cost was spent is unknown, but it is never
// spent twice.
//
// # Concurrent callers
//
// If no other calls are in flight, a caller sends its call immediately, on its own
// goroutine. Calls that arrive while others are in flight are batched. In a batch,
// operations on the same key are executed in the order of arrival in one step, and each
// operation gets its own decision. Operations on different keys share a script call,
// which has at most 128 keys. In a cluster, different keys are usually in different
// slots, so there is one script call per key, and these calls are pipelined.
//
// If a key has no units left, the store denies further requests from a local cache
// until a unit is available again, for at most one second; see
// [Options.DenialCacheTTL]. Batching does not change any decision. Neither does the
// cache, with the exceptions that are listed there.
//
// # Several limits
//
// Several limits on one request are one all-or-nothing script call if all their keys
// may be in one call. Except in a cluster, all keys may. In a cluster, only keys in the
// same slot may: the limits on one key, and on keys that [Options.Group] groups
// together. Otherwise the keys are charged simultaneously, and refunded if one of them
// denies: see [Store.ApplyAll].
//
// # Keys and memory
//
// A Redis key is hg:{tag}:namespace:algorithm:scope:key. The tag, 128 bits of a hash,
// alone determines the slot, so text that a user chooses cannot influence it. The other
// parts are escaped and readable. A Redis key has at most 220 bytes.
//
// A state is a string of 25 bytes. A sliding log has 13 bytes, and 12 bytes for each
// instant at which units were spent (24 when Redis doubles its buffer). It stores at
// most 1,048,576 instants. Further units are counted with the newest instant and expire
// later than they should, so the limit never allows too much.
//
// Every key has a TTL, set by the call that writes the key. The TTL is rounded up to a
// millisecond and never ends while the state is still needed. The TTL of a key that is
// used repeatedly is up to a minute longer than needed. See docs/operate/stores.md for
// memory, eviction, persistence and the minimal permissions of a user.
//
// # When Redis is unavailable
//
// A call returns when its context ends, or after [Options.Timeout]. If no decision was
// possible, it returns a [headgate.StoreError]. Package fallback wraps this store with
// a store that decides locally while Redis is unavailable.
package redisstore
