package bench

import "slices"

// Values returns the result of the function value for each of items.
func Values[T any](items []T, value func(T) float64) []float64 {
	values := make([]float64, len(items))
	for i, item := range items {
		values[i] = value(item)
	}
	return values
}

// Median returns the median of values. If there are two middle values, it returns the
// upper value. It panics if values is empty.
func Median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// LowerQuartile returns the value below which a quarter of the values are. It is used
// for durations on a shared machine, where other processes can only make a duration
// longer. It panics if values is empty.
func LowerQuartile(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/4]
}

// UpperQuartile returns the value above which a quarter of the values are. It is used
// for rates on a shared machine, where other processes can only make a rate lower. It
// panics if values is empty.
func UpperQuartile(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)-1-len(values)/4]
}
