// Package memcachedstore stores state on one or several memcached servers, for programs
// that already use memcached and have no better store. Its decisions are exact to the
// microsecond, like those of every store. It does not store state as reliably as the
// other stores: see Lost state below.
//
//	store, err := memcachedstore.New(nil, "10.0.0.1:11211", "10.0.0.2:11211")
//	limiter, err := headgate.New(store, policy, nil)
//
// In this description, L is the rate of a limit, P its period and B its burst.
//
// # Cost of a decision
//
// A decision reads the key (gets), decides in Go, and writes the new state if no other
// process has written in the meantime (cas, or add for a new key). These are two round
// trips. A denial and a peek write nothing and take one round trip. There are no lock
// keys, so a process that stops during a decision does not block other processes. If
// another process has written the key in the meantime, the decision is repeated on the
// new state after a short random pause, up to MaxTries times. After that it fails with
// [headgate.ReasonOverloaded], and nothing was spent.
//
// Calls on the same key in one process are joined. While an operation on the key is in
// progress, further calls wait. One round, which reads and writes the key once, then
// decides all of them in the order of arrival. Each call has its own instant and its
// own decision. A frequently used key therefore costs two round trips per round and not
// per call, and only other processes cause cas conflicts.
//
// Reads of different keys that wait for the same server are sent in one request. Writes
// are also sent in batches, but each write has its own reply. With an existing client
// ([NewFromClient]), only calls on the same key are joined.
//
// memcached's own counters (incr) are not used, not even for windows. incr does not
// create a key, and returns only the counter that it changed. A denial would have to be
// undone. A window needs two counters, which must be changed or refunded atomically.
//
// # Time
//
// memcached has no command that returns the time, so the store uses the wall clock of
// the process that decides. If the clocks of two processes differ by δ, a bucket allows
// up to min(B, δ·L/P) additional units, once. A window ends for all processes when it
// ends by the fastest of their clocks. Run NTP. A clock that steps back never allows
// additional units on its own. A clock that steps forward acts as if that time had
// passed. [Options.OnClockSkew] reports clocks that differ by 250 ms or more.
//
// # Lost state
//
//   - Eviction: a full server drops the least recently used keys, whatever they
//     contain. An evicted key is unused again, so each eviction allows at most its
//     capacity B (or L) in additional units. Give the servers enough memory for all
//     partly spent keys: a state is 25 bytes under a name of 25 bytes, and takes 120
//     bytes of the server's memory including its overhead. With -M a full server
//     refuses writes, and calls fail with [headgate.ReasonRefused].
//   - A restart of a server drops all of its keys, and so does flush_all: each of these
//     keys allows at most B additional units, once.
//   - If a server is unavailable, calls for its keys fail
//     ([headgate.ReasonUnreachable], [headgate.ReasonOverloaded],
//     [headgate.ReasonTimedOut]). Calls for keys of the other servers are not affected.
//     No key is moved to another server. A change of the list of servers moves most
//     keys, because the CRC-32 of the name, modulo the number of servers, selects the
//     server. Each moved key is unused again.
//   - The protocol cannot express an instant after 19 January 2038. A key that must be
//     kept longer expires at that instant. A key that is written less than 30 days
//     before that instant, or after it, expires 30 days after its last write.
//
// Every key has a TTL, rounded up by one to three seconds because the server's clock
// ticks once a second. State that is kept too long is unused and does not change any
// decision. A TTL of more than 30 days depends on the clocks of the process and of the
// server, so it is a day longer. The TTL is also a day longer if the caller passed the
// instant of the decision. A key that was reset or completely refunded expires after
// three seconds. It is overwritten rather than deleted, because a delete would also
// remove units that another process has just spent.
//
// # Several keys in one request
//
// memcached has no transactions. The store first reads all keys, and writes nothing if
// the request is denied. Then it writes the keys one after another, each by cas. If
// another process has changed one of the keys in the meantime, the whole request is
// decided again. Keys that were already written are then adjusted or refunded by cas.
// If another process has also spent units of such a key, the store refunds as many
// units as would certainly be available without this request. So:
//
//   - Never more than a limit is allowed.
//   - Another request may be denied because of units that are refunded a few round
//     trips later.
//   - Units may stay spent although the request was denied. This can happen to keys
//     that were written before the key that denied the request, if their server does
//     not answer. If another process has changed such a key in the meantime, it can
//     also happen to all units of a leaky bucket, and to as many units of a token
//     bucket as are refilled during the round. Like all spent units they become
//     available again with time.
//
// Within one process such requests are serialized, so requests of the same process
// never cause these effects.
//
// # Holds
//
// An open hold is part of the value of its key, at most 46 bytes; a key has at most
// 10,000 of them. A hold that was committed is kept until its deadline as a record of 24
// bytes. The records of a key are under another key, possibly on another server. There
// are at most as many as the key may have open holds. Therefore a commit is four round
// trips: gets and cas of the value and of the records. Opening a hold whose ID the caller
// chose takes one more for the records. An open hold on several keys that is denied is
// canceled on the keys that were already written, also if another process has changed
// them since. Evicting the records has the effect that a repeated request opens the hold
// again, or returns [headgate.ErrUnknownHold].
// If the value is lost just before a commit changes it, the record is kept, and the
// commit is reported as replayed.
//
// If a request on several keys is denied after a part of it was written, and one of the
// keys has open holds and was changed by another process, its units stay spent.
//
// # Leases
//
// The store has leases: see package lease. An open lease is part of the value of its key,
// at most 50 bytes. Its deadline is that of the clock of the process that has taken it.
// If the clock of another process is ahead by δ, that process ends the lease earlier by
// δ, and the bound can be exceeded by up to the units of the lease. In a bucket, these
// are at most δ·L/P. Upgrade all processes before the first policy is leased: an older
// version of this package reads a lease as a hold.
//
// # Sliding logs
//
// A sliding log is one value: 9 bytes, and 2 to 12 bytes for each instant at which
// units were spent, mostly 4 to 6 (the microseconds since the previous instant, and the
// units). The value is read and written as a whole, so this algorithm is for limits of
// hundreds of units, not of millions. A log stores up to 131,072 instants, which always
// fit into the default item size of 1 MiB (-I). Further units are counted with the
// newest instant and expire later than they should, never earlier.
//
// # Errors
//
// Errors are [headgate.StoreError]. A gets may be repeated once after a broken
// connection. A cas or an add is never sent twice. If its reply is lost, the call fails
// with [headgate.ReasonTimedOut], and whether the cost was spent is unknown.
//
// A call returns when its context ends, whatever the server does. Its request is then
// not executed, unless its write was already in progress. Only
// [headgate.ReasonTimedOut] leaves the result open. A call whose deadline passes while
// it waits for other calls or for an unresponsive server fails with
// [headgate.ReasonOverloaded]. If a read takes longer than Timeout, the call fails with
// [headgate.ReasonUnreachable]. At most MaxWaiting calls are in progress. At most
// MaxConns operations are in progress on each server, and at most MaxConns operations
// on keys of several servers.
//
// A value that this package did not write is not changed; the call fails with
// [headgate.ReasonWrongType]. memcached must not run with -C, which disables cas: the
// store detects this and fails with [headgate.ReasonRefused].
package memcachedstore
