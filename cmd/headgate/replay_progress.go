package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/headgate/headgate/replay"
)

// progress shows how far a replay is, on a terminal only: first the reading in bytes, then the deciding in requests.
type progress struct {
	w        io.Writer
	total    int64 // bytes to read, or -1
	bar      *progressbar.ProgressBar
	deciding bool
}

func newProgress(w io.Writer, total int64) *progress {
	p := &progress{w: w, total: total}
	if file, ok := w.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		p.w = nil
	}
	return p
}

// show is called on one goroutine.
func (p *progress) show(at replay.Progress) {
	switch {
	case p.w == nil:
		return
	case at.Decided > 0 && !p.deciding:
		p.done()
		p.deciding = true
		p.bar = p.newBar(at.Requests, "deciding")
	case p.bar == nil:
		p.bar = p.newBar(p.total, "reading", progressbar.OptionShowBytes(true))
	}
	if p.deciding {
		_ = p.bar.Set64(at.Decided) // a bar that cannot be drawn is no reason to stop
	} else {
		_ = p.bar.Set64(at.Bytes)
	}
}

func (p *progress) newBar(total int64, name string, more ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, append(more,
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetDescription(name),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)...)
}

// done takes the bar away.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
