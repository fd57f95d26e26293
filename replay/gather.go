package replay

import (
	"context"
	"fmt"
	"math"
)

// gatherer is the first phase of a replay: it reads all logs and stores their requests
// for the second phase, which reads them in time order.
type gatherer struct {
	opts *Options
	logs []LogReport

	run   run
	spill spill
	peak  int64 // maximum memory of the field run, in bytes

	bytes                       int64 // number of bytes read from the logs
	lines, requests, unreadable int64
	outOfOrder                  int64
	first, last                 int64 // earliest and latest time of the requests; valid if there is a request
	shown                       []BadLine
}

// gather reads all logs. It returns an error if ctx ends or if the temporary file
// cannot be written.
func (g *gatherer) gather(ctx context.Context, logs []Log) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the reading goroutines, even if collect fails
	g.first, g.last = math.MaxInt64, noInstant
	reading := startReading(ctx, logs, g.opts)
	err := reading.each(ctx, func(p *piece) error {
		err := g.collect(p, &reading.reports[p.log])
		g.bytes = reading.bytes.Load()
		g.opts.Progress(Progress{Bytes: g.bytes, Requests: g.requests})
		return err
	})
	if err != nil {
		return err
	}
	g.logs = reading.reports
	return g.settle()
}

// collect adds the records and the counters of one piece. If the records exceed three
// quarters of Options.Memory, it writes them to the temporary file.
func (g *gatherer) collect(p *piece, log *LogReport) error {
	for _, bad := range p.shown {
		if len(g.shown) < shownLines {
			bad.Log, bad.Line = log.Name, bad.Line+log.Lines+1
			g.shown = append(g.shown, bad)
		}
	}
	log.Lines += p.lines
	g.lines += p.lines
	g.unreadable += p.unreadable
	if len(p.records) == 0 {
		return nil
	}
	g.requests += int64(len(p.records))
	g.outOfOrder += p.outOfOrder(g.last)
	g.first = min(g.first, p.records[0].at)
	g.last = max(g.last, p.records[len(p.records)-1].at)
	g.run.add(p)
	g.peak = max(g.peak, g.run.bytes())
	if g.run.bytes() > g.opts.Memory/4*3 {
		return g.spill.add(&g.run)
	}
	return nil
}

// settle writes the records in memory to the temporary file if earlier records were
// written there. All memory is then free for the second phase.
func (g *gatherer) settle() error {
	if len(g.spill.runs) == 0 || len(g.run.blocks) == 0 {
		return nil
	}
	return g.spill.add(&g.run)
}

// merger returns a merger of all stored requests. It can be used only once.
func (g *gatherer) merger() (*merger, error) {
	if n := len(g.spill.runs); n > 0 {
		ahead := g.opts.Memory / 4 / int64(n)
		return newMerger(g.spill.cursors(int(min(max(ahead, 4<<10), spillBuffer))))
	}
	return newMerger(g.run.cursors())
}

// free returns the number of bytes of Options.Memory that are left for statistics: at
// least a quarter of Options.Memory.
func (g *gatherer) free() int64 {
	if len(g.spill.runs) > 0 {
		return g.opts.Memory / 4 * 3 // a quarter is for the read buffers of the temporary file
	}
	return g.opts.Memory - g.run.bytes()
}

// String returns the text “log:line: reason: beginning of the line”.
func (b BadLine) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", b.Log, b.Line, b.Reason, b.Text)
}
