package model

import (
	"fmt"
	"math"

	"github.com/headgate/headgate"
)

// UpperBound returns the maximum number of units that an algorithm can admit, under a
// certain limit, between two instants. The instants are in µs since the epoch and
// belong to the span.
type UpperBound func(from, to int64) int64

// definition is the entry of an algorithm in the list of all algorithms.
type definition struct {
	name   headgate.Algorithm
	unused func() state // returns the state of an unused key
	// upperBound returns the guarantee of the algorithm under a limit. period is in µs.
	upperBound func(rate, period, capacity int64) UpperBound
}

// definitions lists every algorithm of the model, in the order in which storetest tests
// them.
var definitions = []definition{
	{headgate.TokenBucket, func() state { return &tokenBucket{} }, bucketBound},
	{headgate.TokenBucketInterval, func() state { return &intervalBucket{} }, intervalBound},
	{headgate.FixedWindow, func() state { return &fixedWindow{} }, windowBound},
	{headgate.SlidingLog, func() state { return &slidingLog{} }, logBound},
	{headgate.SlidingWindow, func() state { return &slidingWindow{} }, slidingBound},
	{headgate.LeakyBucket, func() state { return &tokenBucket{queues: true} }, bucketBound},
	{headgate.CalendarWindow, func() state { return &calendarWindow{} }, windowBound}, // the bound requires a period
	{headgate.Concurrency, func() state { return &slots{} }, nil},                     // no bound
}

// Algorithms returns the canonical names of all algorithms in the model, except those
// under which only holds take units.
func Algorithms() []headgate.Algorithm {
	var names []headgate.Algorithm
	for _, d := range definitions {
		if !d.name.OnlyHolds() {
			names = append(names, d.name)
		}
	}
	return names
}

func definitionOf(name headgate.Algorithm) (d definition, ok bool) {
	if name == "" || name == headgate.GCRA {
		name = headgate.TokenBucket
	}
	for _, d := range definitions {
		if d.name == name {
			return d, true
		}
	}
	return definition{}, false
}

// UpperBoundOf returns the guarantee of the algorithm a under the limit l. It panics if
// the algorithm is not in the model, because that is a mistake in a test.
func UpperBoundOf(a headgate.Algorithm, l headgate.Limit) UpperBound {
	d, ok := definitionOf(a)
	if !ok {
		panic(fmt.Sprintf("model: unknown algorithm %q", a))
	}
	return d.upperBound(l.Rate, l.Period.Microseconds(), l.Capacity())
}

// bucketBound returns the bound of a bucket that refills continuously: the capacity
// plus the units that are refilled in the span.
func bucketBound(rate, period, capacity int64) UpperBound {
	return func(from, to int64) int64 { return capacity + (to-from)*rate/period }
}

// intervalBound returns the bound of a bucket that refills in intervals: the capacity
// plus rate for every interval that can end in the span.
func intervalBound(rate, period, capacity int64) UpperBound {
	return func(from, to int64) int64 { return capacity + rate*((to-from)/period+1) }
}

// windowBound returns the bound of a fixed window: rate for every window that contains
// a part of the span.
func windowBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 {
		windows := to/period - from/period + 1
		if windows > math.MaxInt64/rate {
			return math.MaxInt64
		}
		return rate * windows
	}
}

// logBound returns the bound of a sliding log: rate for every period that is needed to
// cover the span.
func logBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 { return rate * ((to-from)/period + 1) }
}

// slidingBound returns the bound of a sliding window: 2·rate for every whole period
// before the last part of the span, and for that last part of at most one period rate
// plus its share of rate.
func slidingBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 {
		whole := max(0, to-from-1) / period
		return 2*rate*whole + rate + (to-from-whole*period)*rate/period
	}
}
