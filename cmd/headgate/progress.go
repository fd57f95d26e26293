package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/headgate/headgate/replay"
)

// statusLine is one line of a terminal that is rewritten in place. If the output is not
// a terminal, it shows nothing. Its methods must not be called concurrently.
type statusLine struct {
	w     io.Writer // nil if the output is not a terminal
	shown time.Time // time of the last write; zero if the line is clear
}

// statusInterval is the minimum time between two writes of a status line.
const statusInterval = 100 * time.Millisecond

func newStatusLine(w io.Writer) *statusLine {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &statusLine{w: w}
	}
	return &statusLine{}
}

// show replaces the status line with the result of text. It does nothing if less than
// statusInterval has passed since the last write.
func (s *statusLine) show(text func() string) {
	if s.w == nil || time.Since(s.shown) < statusInterval {
		return
	}
	fmt.Fprint(s.w, "\r\x1b[K", text())
	s.shown = time.Now()
}

// clear removes the status line. The next call of show writes without delay.
func (s *statusLine) clear() {
	if !s.shown.IsZero() {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = time.Time{}
	}
}

// progress shows the progress of a replay: first the bytes read, then the requests
// decided.
type progress struct {
	line     *statusLine
	total    int64 // total bytes to read; 0 or less if unknown
	curve    bool  // whether every request is decided twice
	deciding bool
}

// show updates the progress. It must always be called on the same goroutine.
func (p *progress) show(at replay.Progress) {
	if at.Decided > 0 && !p.deciding {
		p.deciding = true
		p.line.clear()
	}
	p.line.show(func() string {
		if p.deciding {
			passes := int64(1)
			if p.curve {
				passes = 2
			}
			return fmt.Sprintf("deciding %s of %s requests", bar(at.Decided, passes*at.Requests), thousands(at.Requests))
		}
		return fmt.Sprintf("reading %s %.1f MB", bar(at.Bytes, p.total), float64(at.Bytes)/1e6)
	})
}

// thousands formats n with a comma for every three digits.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// barWidth is the number of columns of a progress bar, without its brackets.
const barWidth = 30

// bar returns a progress bar for done of total, with the percentage, or "" if total is
// 0 or less.
func bar(done, total int64) string {
	if total <= 0 {
		return ""
	}
	share := min(1, float64(done)/float64(total))
	full := int(share * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), 100*share)
}
