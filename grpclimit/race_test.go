//go:build race

package grpclimit_test

// raceEnabled says that the race detector allocates.
const raceEnabled = true
