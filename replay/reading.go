package replay

import (
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// Log is one log to read.
type Log struct {
	// Name is what reports and errors call it.
	Name string
	// Open gives its bytes, plain or gzipped; it is called once, when the logs before it have been read.
	Open func() (io.ReadCloser, error)
}

// reading is the way of all logs from bytes to pieces with their records: one goroutine cuts, as many parse as there are
// processors, and the caller collects, in input order.
type reading struct {
	logs    []Log
	format  Format
	key     Key
	reports []LogReport // one for each log; written by the cutting goroutine, then by the caller
	bytes   atomic.Int64

	free    chan *piece // pieces to cut into; their number bounds the memory
	cut     chan *piece // cut and not parsed
	ordered chan *piece // the same in input order
	running sync.WaitGroup
}

// LogReport says how the reading of one log went.
type LogReport struct {
	Name   string `json:"name"`
	Format Format `json:"format"` // empty if no line could be read
	Gzip   bool   `json:"gzip"`
	Lines  int64  `json:"lines"`
	// Error is why the log could not be read to its end; empty if it could. What came before was replayed.
	Error string `json:"error,omitempty"`
}

// startReading starts the goroutines; they end when the logs do, or with ctx.
func startReading(ctx context.Context, logs []Log, opts *Options) *reading {
	workers := runtime.GOMAXPROCS(0)
	pieces := 2*workers + 2
	r := &reading{
		logs: logs, format: opts.Format, key: opts.Key, reports: make([]LogReport, len(logs)),
		free: make(chan *piece, pieces), cut: make(chan *piece, pieces), ordered: make(chan *piece, pieces),
	}
	for range pieces {
		r.free <- newPiece()
	}
	r.running.Go(func() { r.cutAll(ctx) })
	for range workers {
		r.running.Go(r.parseAll)
	}
	return r
}

// each calls collect for every piece, in input order, until an error. A log that blocks in Read holds nobody back when ctx ends.
func (r *reading) each(ctx context.Context, collect func(*piece) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case p, more := <-r.ordered:
			if !more {
				r.running.Wait()
				return context.Cause(ctx)
			}
			<-p.parsed
			if err := collect(p); err != nil {
				return err
			}
			r.free <- p
		}
	}
}

func (r *reading) parseAll() {
	reader := lineReader{key: r.key}
	for p := range r.cut {
		reader.readAll(p)
		p.parsed <- struct{}{}
	}
}

func (r *reading) cutAll(ctx context.Context) {
	defer close(r.ordered)
	defer close(r.cut)
	for i := range r.logs {
		r.reports[i] = LogReport{Name: r.logs[i].Name, Format: r.format}
		if err := r.cutLog(ctx, i); err != nil {
			r.reports[i].Error = err.Error()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// cutLog cuts one log to its end.
func (r *reading) cutLog(ctx context.Context, i int) error {
	file, err := r.logs[i].Open()
	if err != nil {
		return err
	}
	defer file.Close() // read only: there is nothing to lose
	src, zipped, err := unzipped(&countingReader{file, &r.bytes})
	r.reports[i].Gzip = zipped
	if err != nil {
		return err
	}
	c, detector := cutter{src: src}, lineReader{key: r.key}
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-r.free:
			p.log = i
			if !c.cut(p) {
				r.free <- p
				return endOf(c.err)
			}
			if r.reports[i].Format == "" && p.spoilt == "" {
				r.reports[i].Format = detector.detect(p.text)
			}
			p.format = r.reports[i].Format
			r.cut <- p
			r.ordered <- p
		}
	}
}

func endOf(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// countingReader adds what is read to a counter that others watch.
type countingReader struct {
	src   io.Reader
	total *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.total.Add(int64(n))
	return n, err
}
