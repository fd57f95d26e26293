// Package headgate decides whether a request may go ahead.
//
// A [Limiter] holds one [Policy] (a [Limit] or several, and an [Algorithm]) over one [Store], which keeps the state of every
// key. Its verbs have the meaning they have in golang.org/x/time/rate: [Limiter.Allow] asks and spends, [Limiter.Peek] only
// asks, [Limiter.Reserve] books what is still to come, [Limiter.Wait] blocks until it is there.
//
// Every decision is exact: whole microseconds, whole units and integer arithmetic, the same in every algorithm, store and door.
// A denial is not an error: it is a [Decision] that says when to come back. An error means that nothing could be decided.
//
// This package imports only the standard library. The arithmetic is in package algo, the embedded store in package memstore.
package headgate
