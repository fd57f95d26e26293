//go:build race

package fallback_test

// raceEnabled says that the race detector makes all of this slower.
const raceEnabled = true
