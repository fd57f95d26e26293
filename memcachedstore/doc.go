// Package memcachedstore stores state on one or several memcached servers, for programs
// that already have memcached and no better store. Its decisions are exact to the
// microsecond, like those of every store. It does not store state as reliably as the
// other stores: see below.
//
//	store, err := memcachedstore.New(nil, "10.0.0.1:11211", "10.0.0.2:11211")
//	limiter, err := headgate.New(store, policy, nil)
//
// # Cost of a decision
//
// A decision reads the key (gets), decides in Go, and writes the new state if no other
// process has written in the meantime (cas, or add for a new key). These are two round
// trips. A denial and a peek write nothing and take one. There are no lock keys, so a
// process that stops halfway blocks no other. If another process was faster, the
// decision is repeated on the new state after a short random pause, up to MaxTries
// times. Then it fails with [headgate.ReasonOverloaded], and nothing was spent.
//
// Calls on the same key in one process are joined. While an operation on the key is in
// progress, further calls wait, and one round then decides for all of them in the order
// of arrival. Each call has its own instant and its own decision. So a hot key costs
// two round trips per round, not per call, and cas conflicts come from other processes
// only.
//
// Reads of different keys that wait for the same server are sent in one request. Writes
// are batched, too, each with its own reply. Over an existing client ([NewFromClient])
// only calls on the same key are joined.
//
// memcached's own counters (incr) are not used, not even for windows. incr does not
// create a key and returns only its own number. A denial would have to be undone, and a
// window that is changed or refunded needs both of its numbers atomically.
//
// # Time
//
// memcached has no command for the time, so the clock of the store is the wall clock of
// the process that decides. If the clocks of processes differ by δ, up to min(B, δ·L/P)
// more is allowed under a bucket, once, and a window ends for all processes when it
// ends for the fastest clock. Run NTP. A clock that steps back never allows more on its
// own. A clock that steps forward acts as if that time had passed.
//
// # Lost state
//
//   - Eviction: a full server drops the least recently used keys, whatever they
//     contain. Each evicted key is unused again: at most its capacity B (or L) more is
//     allowed, once per eviction. Give the servers enough memory for all partly spent
//     keys: a state is 25 bytes under a name of 25 bytes, and takes 120 bytes of the
//     server's memory including its overhead. With -M a full server refuses writes, and
//     so does this store ([headgate.ReasonRefused]).
//   - A restart drops every key of that server: at most B more per key, once. flush_all
//     has the same effect.
//   - If a server is unavailable, calls for its keys fail
//     ([headgate.ReasonUnreachable], [headgate.ReasonOverloaded],
//     [headgate.ReasonTimedOut]). Calls for keys of the other servers are not affected.
//     No key is moved to another server. A change of the list of servers moves most
//     keys (the CRC-32 of the name selects the server, modulo the number of servers),
//     and each moved key is unused again.
//   - The protocol has no instant after 19 January 2038. A key that must be kept beyond
//     that is kept until then, or, from 30 days before it on, for 30 days after its
//     last write.
//
// Every key has a TTL, rounded up by one to three seconds, as the server's clock ticks
// once a second. A state that is kept too long is unused and does not change any
// decision. A TTL of more than 30 days depends on both clocks and is a day longer. So
// is the TTL of a key that was decided at an instant passed by the caller. A key that
// was reset or completely refunded expires after three seconds. It is overwritten
// rather than deleted, as a delete would also remove what another process has just
// spent.
//
// # Several keys in one request
//
// memcached has no transactions. All keys are read first; if one denies, nothing is
// written. Then they are written one after another, each by cas. If another process was
// faster on one of them, everything is decided again. Keys that were already written
// are adjusted or refunded by cas. If another process has spent on such a key in the
// meantime, it is refunded as far as the state without this request is certain. So:
//
//   - Never more than a limit is allowed.
//   - Another request may be denied for units that are refunded a few round trips later.
//   - Units may stay spent although the request was denied. This concerns the keys of
//     one round that were written before the one that denied, if their server does not
//     answer. If another process has changed them in between, it also concerns the
//     units of a leaky bucket, and as many units of a token bucket as it refills during
//     the round. Like all spent units they become available again with time.
//
// Within one process such requests are serialized, so none of this happens.
//
// # Sliding logs
//
// A sliding log is one value: 9 bytes, and 2 to 12 bytes for each instant at which
// something was spent, mostly 4 to 6 (the microseconds since the previous instant, and
// the units). It is read and written as a whole, so this algorithm is for limits of
// hundreds, not of millions. A log stores 131,072 instants, which always fit into the
// default item size of 1 MiB (-I). Further units are counted with the newest instant
// and expire later than they should, never earlier.
//
// # Errors
//
// Errors are [headgate.StoreError]. A gets may be repeated once after a broken
// connection. A cas or an add is never sent twice: if its reply is lost, the call fails
// with [headgate.ReasonTimedOut], and whether the cost was spent is unknown.
//
// A call ends with its context, whatever the server does. Its request is then not
// executed, unless its write was already in progress. Only [headgate.ReasonTimedOut]
// leaves the result open. A call whose deadline passes while it waits for other calls
// or for an unresponsive server fails with [headgate.ReasonOverloaded]; once a read has
// taken a Timeout, it fails with [headgate.ReasonUnreachable]. At most MaxWaiting calls
// are in progress, and at most MaxConns operations on each server, plus as many on
// several servers.
//
// A value that this package did not write is not changed ([headgate.ReasonWrongType]).
// memcached must not run with -C, which disables cas: the store detects and refuses it.
package memcachedstore
