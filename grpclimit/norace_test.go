//go:build !race

package grpclimit_test

// raceEnabled says that nothing else allocates.
const raceEnabled = false
