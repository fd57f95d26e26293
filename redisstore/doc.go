// Package redisstore keeps state in Redis (6.2 or later) or Valkey, where many processes share it: alone, behind Sentinel, or in a
// Cluster.
//
// # A decision
//
// One script call reads the key, takes the same exact step as the Go code in package algo does (each algorithm's own Lua twin),
// and writes the key back with its life. It answers with what it found, and the Go twin takes the same step to the full decision. The
// server's clock decides, so callers' clocks may differ. The script is run by its SHA; a server that has forgotten it is sent the
// text, which nobody notices. No call is sent twice unless the server said that it did not run it: a lost answer is an error of which
// the outcome is unknown ([headgate.ReasonTimedOut]), never a second charge.
//
// # Many callers
//
// A caller who is alone asks at once, on his own goroutine. Callers who come while others are under way go together: those of one key
// in one step, in the order they came, each with an answer of his own; those of different keys in one script call, of at most 128
// keys. In a cluster keys lie in different slots, so there each key is a call, and the calls are pipelined. A key of which the last
// answer left nothing is denied from memory until it has a unit again, and for a second at most; see [Options].
// None of this changes an answer.
//
// # Several limits
//
// Several limits on one request are one call, all or nothing, where the keys may stand in one call: always but in a cluster, where the
// limits of one key do, and keys that [Options.Group] puts together. Other keys are charged at once and given back if one denies: see
// [Store.ApplyAll].
//
// # Keys and memory
//
// A key is hg:{tag}:namespace:algorithm:scope:key. The tag, 128 bits of a hash, decides the slot, so that no user's text does; all that
// follows is escaped, readable and bounded: at most 220 bytes. A state is a string of 25 bytes, a sliding log one of 13 bytes and 12 for
// each instant at which something was spent (24 by Redis' own doubling; at most 1,048,576 instants, from where on later units count with
// the newest: never too much is admitted). Every key has a life, set by the call that writes it, rounded up to a millisecond and never
// shorter than its state means something; a key in use has up to a minute more than it needs. See docs/operations.md for memory,
// eviction, persistence and the least that a user must be allowed.
//
// # When Redis is away
//
// A call ends with its context, or after [Options.Timeout]. What could not be decided is a [headgate.StoreError]. Package fallback makes
// a store of this one that decides meanwhile.
package redisstore
