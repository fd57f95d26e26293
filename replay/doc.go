// Package replay runs the requests of a log past a limiter, by the log's own clock and at full speed: what would this limit
// have done to last week's traffic?
//
// [Run] reads logs in Combined or Common Log Format or as JSON lines, plain or gzipped, puts their requests in time order and
// decides each at its own instant with [headgate.Limiter.AllowAt]; the machine's clock decides nothing. Several policies are
// decided side by side on the same requests, each over a fresh store. The outcome is a [Report]: as text, as JSON or as a page.
//
// Memory is bounded. Up to [Options].Memory the requests are held as they are, 24 bytes each and each key once; past it, sorted
// runs go to a temporary file and are merged from there. Statistics for each key are exact as long as they fit in the same
// bound; past it the keys with fewest denials are forgotten, the numbers of keys become estimates, and the report says so.
//
// This package imports the standard library and the root package only. Stores and algorithms arrive as arguments.
package replay
