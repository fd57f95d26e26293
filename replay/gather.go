package replay

import (
	"context"
	"fmt"
	"math"
)

// gatherer is the first phase of a replay: it reads every log and stores its requests
// for iteration in time order.
type gatherer struct {
	opts *Options
	logs []LogReport

	run   run
	spill spill
	peak  int64 // maximum bytes that the run used

	bytes                       int64 // bytes read
	lines, requests, unreadable int64
	outOfOrder                  int64
	first, last                 int64 // times; valid if there is a request
	shown                       []BadLine
}

// gather reads all logs.
func (g *gatherer) gather(ctx context.Context, logs []Log) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the reading goroutines, also if collecting fails
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

// collect adds the records of one piece.
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

// settle spills the rest if anything was spilled, so that all memory is free for the
// second phase.
func (g *gatherer) settle() error {
	if len(g.spill.runs) == 0 || len(g.run.blocks) == 0 {
		return nil
	}
	return g.spill.add(&g.run)
}

// merger iterates over all requests, once.
func (g *gatherer) merger() (*merger, error) {
	if n := len(g.spill.runs); n > 0 {
		ahead := g.opts.Memory / 4 / int64(n)
		return newMerger(g.spill.cursors(int(min(max(ahead, 4<<10), spillBuffer))))
	}
	return newMerger(g.run.cursors())
}

// free returns the memory that is left for statistics: at least a quarter.
func (g *gatherer) free() int64 {
	if len(g.spill.runs) > 0 {
		return g.opts.Memory / 4 * 3 // the rest is for reading ahead
	}
	return g.opts.Memory - g.run.bytes()
}

// String formats the line as file:line: reason, and its beginning.
func (b BadLine) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", b.Log, b.Line, b.Reason, b.Text)
}
