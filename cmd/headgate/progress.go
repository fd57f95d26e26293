package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/headgate/headgate/replay"
)

// statusLine is one line of a terminal that is rewritten in place. Without a terminal it
// shows nothing. Its methods must not be called concurrently.
type statusLine struct {
	w     io.Writer // nil without a terminal
	shown time.Time // when it was last written
}

// statusInterval is the minimum time between two writes of a line.
const statusInterval = 100 * time.Millisecond

func newStatusLine(w io.Writer) *statusLine {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &statusLine{w: w}
	}
	return &statusLine{}
}

// show replaces the line by text, unless less than statusInterval passed since the last
// write.
func (s *statusLine) show(text func() string) {
	if s.w == nil || time.Since(s.shown) < statusInterval {
		return
	}
	fmt.Fprint(s.w, "\r\x1b[K", text())
	s.shown = time.Now()
}

// clear removes the line; the next show is not delayed.
func (s *statusLine) clear() {
	if !s.shown.IsZero() {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = time.Time{}
	}
}

// progress shows how far a replay is: first the bytes read, then the requests decided.
type progress struct {
	line     *statusLine
	total    int64 // bytes to read, or -1 if unknown
	deciding bool
}

// show must be called on one goroutine.
func (p *progress) show(at replay.Progress) {
	if at.Decided > 0 && !p.deciding {
		p.deciding = true
		p.line.clear()
	}
	p.line.show(func() string {
		if p.deciding {
			return fmt.Sprintf("deciding %s %d of %d requests", bar(at.Decided, at.Requests), at.Decided, at.Requests)
		}
		return fmt.Sprintf("reading %s %.1f MB", bar(at.Bytes, p.total), float64(at.Bytes)/1e6)
	})
}

// barWidth is the width of a full bar in columns.
const barWidth = 30

// bar draws done of total with its percentage; empty if the total is unknown.
func bar(done, total int64) string {
	if total <= 0 {
		return ""
	}
	share := min(1, float64(done)/float64(total))
	full := int(share * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), 100*share)
}
