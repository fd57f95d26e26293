// Package respcheck checks the replies of a Redis server before a client library reads
// them. Client libraries trust the server: some panic in a goroutine of their own if a
// reply has an impossible length, arrives without a request, or has too few elements,
// and allocate any length that the server announces.
//
// [New] wraps a connection. Its Read returns only bytes of replies that are well formed
// RESP2 or RESP3, within the [Limits], and replies to requests that were sent. After
// the first invalid byte, the connection is closed and Read returns an [Error]. The
// last byte of a reply is returned only if the whole reply is valid.
//
// The check uses constant memory and does not allocate. It does not look into the
// strings that a script returns.
package respcheck
