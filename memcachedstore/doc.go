// Package memcachedstore is the store whose state lies in one or several servers of memcached, for programs that have them already
// and nothing better. It decides as every store does, to the microsecond. What it cannot do is remember as well as others: see
// below.
//
//	store, err := memcachedstore.New(nil, "10.0.0.1:11211", "10.0.0.2:11211")
//	limiter, err := headgate.New(store, policy, nil)
//
// # What a decision costs
//
// A decision reads the key (gets), decides in Go and writes what has changed, if nobody else has written meanwhile (cas, or add
// where there was nothing). That is two round trips; one for a denial and for a peek, which write nothing. There are no lock keys:
// who stops in the middle stops nobody. When another process was faster the decision is made anew on what it left, after a short
// random pause, MaxTries times; then the answer is [headgate.ReasonOverloaded], and nothing was spent.
//
// Callers of the same key in one process are joined: while a round is under way the next ones wait, and one round then decides for
// all of them in the order in which they came, each at its own instant and with its own answer. A key that everyone wants costs
// two round trips for each round, not for each caller, and cas conflicts come from other processes only. Reads of different keys
// that wait at the same time go to a server in one request, and so do writes, each with its own reply; over a client that the program
// already holds ([NewFromClient]) only those of one key do. Counters that memcached increments itself (incr) are not used, for
// windows either: incr creates no key and answers no more than its own number, so that a denial would have to be taken back, and a
// window that is changed or refunded needs both numbers at once.
//
// # Time
//
// memcached tells nobody the time, so the store's clock is the wall clock of the process that decides. Processes whose clocks
// differ by δ admit up to min(B, δ·L/P) more under a bucket, once, and a window ends for all when it ends for the one that is
// ahead. Run NTP. A clock that steps back never admits more by itself; one that steps forward does as if that time had passed.
//
// # What memcached forgets
//
//   - Eviction: a server that is full drops the keys that were used least recently, whatever they hold. Each time that happens to
//     a key it is as if never used: at most its capacity B (or L) more is admitted, once for each event. Give the servers memory
//     for all keys in debt: a state is 25 bytes under a name of 25 bytes, 120 bytes of the server's memory with its own part.
//     With -M a full server refuses instead, and so does this store ([headgate.ReasonRefused]).
//   - A restart forgets every key of that server: at most B more for each key, once. flush_all is the same.
//   - A server that is away takes its keys with it: calls for them are errors ([headgate.ReasonUnreachable], [headgate.ReasonOverloaded],
//     [headgate.ReasonTimedOut]), and those for the other servers' keys go on. Nothing is moved to another server. A list of servers that is changed moves most
//     keys (the CRC-32 of the name decides, modulo the number of servers), and each that moves is as if never used.
//   - Its protocol names no instant after 19 January 2038. A key that has to be remembered beyond that is kept until then, or, from
//     30 days before it on, for 30 days after it was last written.
//
// Every key has a life, rounded up by one to three seconds, as the server's clock moves once a second; a state that lives too long
// is as if never used and changes no answer. Lives of over 30 days hang on both clocks and get a day more, and so do keys decided at
// an instant that was passed in. A key that was reset, or to which all was given back, is gone after three seconds: it is
// overwritten, not deleted, as a delete would also take away what somebody else has spent just now.
//
// # Several keys on one request
//
// memcached has no transactions. All keys are read first; if one of them denies nothing is written. Then they are written one
// after another, each by cas. When another process was faster at one of them everything is decided anew, and what had been written
// already is changed to fit, or given back, by cas; behind what somebody else has spent there meanwhile, as far as it is certain
// what there would be without it. So:
//
//   - never more is admitted than any of the limits holds;
//   - somebody else may be denied for units that are given back a few round trips later;
//   - units may stay spent although the request was denied: those of one round on the keys written before the one that denied, if
//     their server does not answer; and if somebody else has changed them in between, those of a leaky bucket, and of a token
//     bucket as many as come during the round. They come back with time, as all that is spent.
//
// In one process such requests take turns, so none of this happens there.
//
// # Sliding logs
//
// A sliding log is one value: 9 bytes, and for each instant at which something was spent 2 to 12 bytes, mostly 4 to 6 (the
// microseconds since the one before, and the units). It is read and written whole, so this algorithm is for limits of hundreds, not
// of millions. It holds 131,072 instants, which always fit into the 1 MiB that memcached takes by default (-I); after that new
// units are counted with the newest, and age out later than they should, never earlier.
//
// # When something goes wrong
//
// Errors are [headgate.StoreError]. A gets may be repeated, once, on a connection that turned out to be broken; a cas or an add is
// never sent again once it was sent: if its reply does not come the answer is [headgate.ReasonTimedOut], and whether it was spent is
// unknown. A call ends with its context, whatever the server does. What it had asked for is then not done, unless its write was
// under way already; the error says which: only [headgate.ReasonTimedOut] leaves it open. Whoever waited in vain, for others or for a
// server that hangs, hears [headgate.ReasonOverloaded] when his own time is over, and [headgate.ReasonUnreachable] once a read has taken a
// Timeout. At most MaxWaiting callers are under way, and MaxConns operations on each server and as many on several at once.
//
// A value that is not of this package's making is left alone ([headgate.ReasonWrongType]). memcached must not run with -C, which turns
// cas off: that is noticed, and refused.
package memcachedstore
