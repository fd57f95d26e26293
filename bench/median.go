package bench

import "slices"

// Values returns the result of value for each item.
func Values[T any](items []T, value func(T) float64) []float64 {
	values := make([]float64, len(items))
	for i, item := range items {
		values[i] = value(item)
	}
	return values
}

// Median returns the median of values, the upper one of two middle values. It panics if
// values is empty.
func Median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// LowerQuartile returns the value that a quarter of values is below. It is used for
// durations on a shared machine, because other processes can only increase them.
func LowerQuartile(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/4]
}

// UpperQuartile returns the value that a quarter of values is above. It is used for
// rates on a shared machine.
func UpperQuartile(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)-1-len(values)/4]
}
