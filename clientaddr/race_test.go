//go:build race

package clientaddr

const raceEnabled = true
