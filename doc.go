// Package headgate is a rate limiter.
//
// A [Limiter] applies one [Policy], which is one or more [Limit] values and an
// [Algorithm], on one [Store], which keeps the state of every key. Its methods mean
// what they mean in golang.org/x/time/rate: [Limiter.Allow] spends units if they are
// available, [Limiter.Reserve] reserves units of the near future and [Limiter.Wait]
// blocks until units are available. In addition, [Limiter.Peek] reports what Allow
// would decide.
//
// Every decision is exact. All algorithms, stores and interfaces calculate in whole
// microseconds and whole units with integer arithmetic. A denial is not an error: it is a
// [Decision] that includes when to retry. An error means that nothing could be decided.
//
// This package imports only the standard library. Package algo has the arithmetic,
// package memstore the store in memory.
package headgate
