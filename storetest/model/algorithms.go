package model

import (
	"fmt"

	"github.com/headgate/headgate"
)

// Bound is the most units that an algorithm under a limit admits from one instant to another, both included, in µs since the epoch.
type UpperBound func(from, to int64) int64

// definition is what the model knows of an algorithm.
type definition struct {
	name       headgate.Algorithm
	unused     func() state                                  // the state of a key that was never used
	upperBound func(rate, period, capacity int64) UpperBound // its guarantee, period in µs
}

// definitions has every algorithm that is modelled, in the order in which the checks run.
var definitions = []definition{
	{headgate.TokenBucket, func() state { return &tokenBucket{} }, bucketBound},
	{headgate.TokenBucketInterval, func() state { return &intervalBucket{} }, intervalBound},
	{headgate.FixedWindow, func() state { return &fixedWindow{} }, windowBound},
	{headgate.SlidingLog, func() state { return &slidingLog{} }, logBound},
	{headgate.SlidingWindow, func() state { return &slidingWindow{} }, slidingBound},
	{headgate.LeakyBucket, func() state { return &tokenBucket{queues: true} }, bucketBound},
}

// Algorithms returns the algorithms that are modelled, each by its own name.
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

// BoundOf returns what an algorithm guarantees. It panics on one that is not modelled: that is a mistake in a test.
func UpperBoundOf(a headgate.Algorithm, l headgate.Limit) UpperBound {
	d, ok := definitionOf(a)
	if !ok {
		panic(fmt.Sprintf("model: algorithm %q is not modelled", a))
	}
	return d.upperBound(l.Rate, l.Period.Microseconds(), l.Capacity())
}

// bucketBound: a full bucket, and what is refilled meanwhile.
func bucketBound(rate, period, capacity int64) UpperBound {
	return func(from, to int64) int64 { return capacity + (to-from)*rate/period }
}

// intervalBound: a full bucket, and a refill at the end of each interval.
func intervalBound(rate, period, capacity int64) UpperBound {
	return func(from, to int64) int64 { return capacity + rate*((to-from)/period+1) }
}

// windowBound: the limit in each window that the span touches.
func windowBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 { return rate * (to/period - from/period + 1) }
}

// logBound: the limit in any period, of which the span needs so many to be covered.
func logBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 { return rate * ((to-from)/period + 1) }
}

// slidingBound is for a span within one period; several cover a longer one.
func slidingBound(rate, period, _ int64) UpperBound {
	return func(from, to int64) int64 {
		whole := max(0, to-from-1) / period
		return 2*rate*whole + rate + (to-from-whole*period)*rate/period
	}
}
