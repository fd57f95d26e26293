//go:build !race

package fallback_test

// raceEnabled says that nothing makes all of this slower.
const raceEnabled = false
