//go:build !race

package clientaddr

const raceEnabled = false
