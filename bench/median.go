package bench

import "slices"

// Values returns a value of each item.
func Values[T any](items []T, of func(T) float64) []float64 {
	values := make([]float64, len(items))
	for i, item := range items {
		values[i] = of(item)
	}
	return values
}

// Median is the middle of values, the upper one of two; it needs one at least.
func Median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// LowerQuartile is the value that a quarter lies below: for times on a machine that others use too, who can only add to them.
func LowerQuartile(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/4]
}

// UpperQuartile is the value that a quarter lies above: for rates on such a machine.
func UpperQuartile(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)-1-len(values)/4]
}
