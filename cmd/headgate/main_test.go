package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// raceSettings keep a program that looks for races from sleeping a second when it ends.
const raceSettings = "atexit_sleep_ms=10"

// TestMain lets scripts run this test binary as headgate, and under the name of
// envoyproxy/ratelimit's program.
func TestMain(m *testing.M) {
	_ = os.Setenv("GORACE", raceSettings)
	testscript.Main(m, map[string]func(){"headgate": main, "ratelimit": main})
}

// TestScripts runs the command from outside, as testdata/script says.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUpServing,
		Cmds:                servingCommands,
	})
}
