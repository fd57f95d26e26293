//go:build race

package httplimit_test

// raceEnabled says that the race detector makes all of this slower, and allocate.
const raceEnabled = true
