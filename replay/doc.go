// Package replay applies rate limits to the requests of an access log, at the times in
// the log but as fast as possible. It answers the question: what would this limit have
// done to last week's traffic?
//
// [Run] reads logs in Combined or Common Log Format or as JSON lines, plain or gzipped.
// It sorts the requests by time and decides each request at its time in the log with
// [headgate.Limiter.AllowAt]; the machine's clock has no influence. To compare several
// policies, Run decides the same requests under each of them, with a separate new store
// for each policy. The result is a [Report], which can be written as text, JSON or an
// HTML page.
//
// Memory is limited to [Options].Memory. As long as the requests fit, they are kept in
// memory: 24 bytes for each request, and the text of each distinct key once. Otherwise
// parts of them are sorted, written to a temporary file and merged. Statistics of keys
// are exact as long as they fit into the rest of Memory. Otherwise the keys with the
// fewest denials are dropped, the numbers of keys become estimates, and the report
// states that.
//
// This package does not import any store or algorithm: the caller passes them to [Run].
package replay
