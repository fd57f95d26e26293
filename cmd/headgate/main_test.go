package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// raceSettings shorten the sleep at the end of a program with the race detector from 1 s.
const raceSettings = "atexit_sleep_ms=10"

// TestMain lets scripts run this test binary as headgate, and under the name of
// envoyproxy/ratelimit's program.
func TestMain(m *testing.M) {
	_ = os.Setenv("GORACE", raceSettings)
	testscript.Main(m, map[string]func(){"headgate": main, "ratelimit": main})
}

// TestScripts runs the command from outside, with the scripts in testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUpServing,
		Cmds:                servingCommands,
	})
}
