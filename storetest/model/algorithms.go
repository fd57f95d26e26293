package model

import (
	"fmt"

	"github.com/headgate/headgate"
)

// UpperBound returns the maximum number of units that an algorithm under a limit admits
// from one instant to another, both included, in µs since the epoch.
type UpperBound func(from, to int64) int64

// definition describes an algorithm to the model.
type definition struct {
	name   headgate.Algorithm
	unused func() state // returns the state of an unused key
	// upperBound returns the guarantee of the algorithm; period is in µs.
	upperBound func(rate, period, capacity int64) UpperBound
}

// definitions lists every algorithm of the model, in the order in which the checks run.
var definitions = []definition{
	{headgate.TokenBucket, func() state { return &tokenBucket{} }, bucketBound},
	{headgate.TokenBucketInterval, func() state { return &intervalBucket{} }, intervalBound},
	{headgate.FixedWindow, func() state { return &fixedWindow{} }, windowBound},
	{headgate.SlidingLog, func() state { return &slidingLog{} }, logBound},
	{headgate.SlidingWindow, func() state { return &slidingWindow{} }, slidingBound},
	{headgate.LeakyBucket, func() state { return &tokenBucket{queues: true} }, bucketBound},
}

// Algorithms returns the algorithms of the model by their canonical names.
func Algorithms() []headgate.Algorithm {
	names := make([]headgate.Algorithm, len(definitions))
	for i, d := range definitions {
		names[i] = d.name
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

// UpperBoundOf returns the guarantee of an algorithm under a limit. It panics if the
// algorithm is not in the model: that is a mistake in a test.
func UpperBoundOf(a headgate.Algorithm, l headgate.Limit) UpperBound {
	d, ok := definitionOf(a)
	if !ok {
		panic(fmt.Sprintf("model: unknown algorithm %q", a))
	}
	return d.upperBound(l.Rate, l.Period.Microseconds(), l.Capacity())
}

// bucketBound is a full bucket plus the units that are refilled in the span.
func bucketBound(rate, period, capacity int64) UpperBound {
	return func(from, to int64) int64 { return capacity + (to-from)*rate/period }
}

// intervalBound is a full bucket plus a refill at the end of each interval.
func intervalBound(rate, period, capacity int64) UpperBound {
	return func(from, to int64) int64 { return capacity + rate*((to-from)/period+1) }
}

// windowBound is the limit in each window that the span touches.
func windowBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 { return rate * (to/period - from/period + 1) }
}

// logBound is the limit in each of the periods that cover the span.
func logBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 { return rate * ((to-from)/period + 1) }
}

// slidingBound applies to a span within one period; several periods cover a longer span.
func slidingBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 {
		whole := max(0, to-from-1) / period
		return 2*rate*whole + rate + (to-from-whole*period)*rate/period
	}
}
