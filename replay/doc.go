// Package replay runs the requests of an access log against rate limits, with the times
// of the log and at full speed: what would this limit have done to last week's traffic?
//
// [Run] reads logs in Combined or Common Log Format or as JSON lines, plain or gzipped.
// It sorts their requests by time and decides each at its own time with
// [headgate.Limiter.AllowAt]; the machine's clock has no influence. Several policies
// are compared on the same requests, each with a new store. The result is a [Report]:
// text, JSON or an HTML page.
//
// Memory is bounded. Up to [Options].Memory, requests are kept in memory, 24 bytes each
// and each key once. Above it, sorted runs are written to a temporary file and merged.
// Statistics per key are exact as long as they fit into the same bound. Above it, the
// keys with the fewest denials are dropped, the numbers of keys become estimates, and
// the report states that.
//
// This package imports only the standard library and the root package. Stores and
// algorithms are arguments.
package replay
