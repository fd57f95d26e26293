package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the command itself available to scripts, as a program of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"headgate": main})
}

// TestReplayScripts runs the scripts of replay. $LOG is the real access log.
func TestReplayScripts(t *testing.T) {
	log, err := filepath.Abs("../../testdata/apache_access.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files: scripts(t, "replay*.txtar"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("LOG", log)
			return nil
		},
	})
}

// scripts are the scripts whose names match pattern; none is a mistake.
func scripts(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "script", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no script matches %s: %v", pattern, err)
	}
	return files
}
