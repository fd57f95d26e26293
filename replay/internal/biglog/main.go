// Command biglog makes a long access log out of a short one, for measuring: the short one again and again, each time later by
// its own span, so that no two rounds overlap.
//
//	go run ./replay/internal/biglog -lines 5000000 testdata/apache_access.log.gz > /tmp/big.log
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"
)

const layout = "02/Jan/2006:15:04:05 -0700"

func main() {
	lines := flag.Int("lines", 5_000_000, "lines to write")
	step := flag.Duration("step", 96*time.Hour, "how much later each round is")
	flag.Parse()
	if err := enlarge(flag.Arg(0), *lines, *step, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "biglog:", err)
		os.Exit(1)
	}
}

func enlarge(name string, lines int, step time.Duration, to io.Writer) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() // read only
	unzip, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(unzip)
	if err != nil {
		return err
	}
	stamps := regexp.MustCompile(`\[[^\]]{26}\]`)
	w := bufio.NewWriterSize(to, 1<<20)
	for round := 0; lines > 0; round++ {
		for line := range bytes.Lines(text) {
			if lines--; lines < 0 {
				break
			}
			place := stamps.FindIndex(line)
			if place == nil {
				return fmt.Errorf("no time in %q", line)
			}
			at, err := time.Parse(layout, string(line[place[0]+1:place[1]-1]))
			if err != nil {
				return err
			}
			_, _ = w.Write(line[:place[0]+1]) // an error stays with w until Flush
			_, _ = w.WriteString(at.Add(time.Duration(round) * step).Format(layout))
			_, _ = w.Write(line[place[1]-1:])
		}
	}
	return w.Flush()
}
