//go:build race

package httpfields_test

// raceDetector reports whether the race detector is enabled, which makes tests ten
// times slower and allocates.
const raceDetector = true
