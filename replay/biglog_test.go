package replay_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"testing"
	"time"
)

var (
	bigLog      = flag.String("biglog", "", "write a long access log for measurements to this file")
	bigLogLines = flag.Int("biglog-lines", 5_000_000, "lines of that log")
	bigLogStep  = flag.Duration("biglog-step", 96*time.Hour, "how much later each repetition is")
)

// TestWriteBigLog writes a long access log, for measurements, if the flag -biglog names
// a file. It repeats a short log, each time shifted by the time span of the short log,
// so that repetitions do not overlap.
func TestWriteBigLog(t *testing.T) {
	if *bigLog == "" {
		t.Skip("-biglog names no file")
	}
	to, err := os.Create(*bigLog)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := enlarge("../testdata/apache_access.log.gz", *bigLogLines, *bigLogStep, to); err != nil {
		t.Fatal(err)
	}
}

const layout = "02/Jan/2006:15:04:05 -0700"

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
			_, _ = w.Write(line[:place[0]+1]) // Flush returns a write error
			_, _ = w.WriteString(at.Add(time.Duration(round) * step).Format(layout))
			_, _ = w.Write(line[place[1]-1:])
		}
	}
	return w.Flush()
}
