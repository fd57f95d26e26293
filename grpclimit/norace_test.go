//go:build !race

package grpclimit_test

// raceEnabled reports whether the race detector is enabled, which makes tests slower
// and allocates.
const raceEnabled = false
