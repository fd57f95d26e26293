// Package headgate is a rate limiter.
//
// A [Limiter] applies a [Policy] to keys. A policy consists of one or more [Limit]
// values and an [Algorithm]; a [Store] keeps the state of every key. The methods mean
// the same as in golang.org/x/time/rate: [Limiter.Allow] spends units if they are
// available, [Limiter.Reserve] reserves units that become available soon, and
// [Limiter.Wait] blocks until units are available. In addition, [Limiter.Peek] reports
// what Allow would decide.
//
// Every decision is exact. All algorithms, stores and interfaces calculate in whole
// microseconds and whole units with integer arithmetic. A denial is not an error: it is
// a [Decision] that includes when to retry. An error means that no decision could be
// made.
//
// This package imports only the standard library. Package algo implements the
// algorithms, package memstore the store in memory.
package headgate
