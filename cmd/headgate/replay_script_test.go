package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestReplayScripts runs the scripts of testdata/replay. $LOG is the real access log.
func TestReplayScripts(t *testing.T) {
	log, err := filepath.Abs("../../testdata/apache_access.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "replay"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("LOG", log)
			env.Setenv("GORACE", raceSettings)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"gzip": gzipFiles, "cut": cutFile},
	})
}

// gzipFiles writes files into the last one, as one gzip member each: gzip FROM… TO.
func gzipFiles(ts *testscript.TestScript, _ bool, args []string) {
	to, err := os.Create(ts.MkAbs(args[len(args)-1]))
	ts.Check(err)
	for _, from := range args[:len(args)-1] {
		w := gzip.NewWriter(to)
		_, err := w.Write([]byte(ts.ReadFile(from)))
		ts.Check(err)
		ts.Check(w.Close())
	}
	ts.Check(to.Close())
}

// cutFile removes bytes from the end of a file: cut FILE BYTES.
func cutFile(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	bytes, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()-bytes))
}
