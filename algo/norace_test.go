//go:build !race

package algo_test

// raceDetector reports whether this is a run under the race detector, which is some ten
// times slower.
const raceDetector = false

// moments is how many each property is checked at, for each algorithm.
const moments = 20_000
