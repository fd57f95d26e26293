//go:build !race

package algo_test

// raceDetector reports whether the race detector is enabled, which makes tests about ten
// times slower.
const raceDetector = false

// stepsPerTest is the number of random steps per property and algorithm.
const stepsPerTest = 15_000
