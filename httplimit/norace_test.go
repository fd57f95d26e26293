//go:build !race

package httplimit_test

// raceEnabled says that nothing makes all of this slower.
const raceEnabled = false
