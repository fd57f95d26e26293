//go:build race

package httpfields_test

// raceDetector reports whether this is a run under the race detector, which is some ten times slower and allocates for itself.
const raceDetector = true
