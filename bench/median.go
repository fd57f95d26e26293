package bench

import "slices"

// Median is the middle of values, the upper one of two; it needs one at least.
func Median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }
