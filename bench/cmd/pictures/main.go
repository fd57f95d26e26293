// Command pictures draws how each algorithm decides the same requests, as one SVG file
// for each algorithm. It runs a headgate.Limiter on the embedded store with a virtual
// clock. The output is deterministic.
//
//	go run ./cmd/pictures DIRECTORY
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/headgate/headgate/algo"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "pictures: missing argument: the output directory, for example ../docs/pictures")
		os.Exit(2)
	}
	if err := drawAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// drawAll writes the file <algorithm>.svg in dir for every algorithm.
func drawAll(dir string) error {
	for _, a := range algo.Rates() {
		if a.Name.HasCalendar() { // under a limit with a period it decides like fixed_window
			continue
		}
		r, err := run(a.Name)
		if err != nil {
			return err
		}
		picture, err := draw(r)
		if err != nil {
			return err
		}
		name := filepath.Join(dir, string(a.Name)+".svg")
		if err := os.WriteFile(name, picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}
