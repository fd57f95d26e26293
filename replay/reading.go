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
	// Name is the name of the log in reports and errors.
	Name string
	// Open returns the content of the log, plain or gzipped. It is called once, after
	// all previous logs in the list were read. The content is closed after it was read.
	Open func() (io.ReadCloser, error)
}

// reading reads all logs and turns them into pieces with parsed records. One goroutine
// splits the logs into pieces, one goroutine for each processor parses pieces, and the
// caller collects them in input order.
type reading struct {
	logs    []Log
	format  Format
	key     Key
	reports []LogReport // one for each log; written by the splitting goroutine, then by the caller
	bytes   atomic.Int64

	free    chan *piece // unused pieces; the total number of pieces limits the memory
	cut     chan *piece // pieces for the parsers
	ordered chan *piece // the same pieces, for the caller, in input order
	running sync.WaitGroup
}

// LogReport describes how one log was read.
type LogReport struct {
	Name   string `json:"name"`
	Format Format `json:"format"` // empty if the format was not given and no line could be parsed
	Gzip   bool   `json:"gzip"`
	Lines  int64  `json:"lines"`
	// Error is the reason why the log could not be read to its end, or empty. The lines
	// before the error were replayed.
	Error string `json:"error,omitempty"`
}

// startReading starts the reading goroutines. They end after the last log, or when ctx
// ends.
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

// each calls collect for every piece, in input order, and returns the first error of
// collect. It returns the error of ctx when ctx ends, even if a log blocks in Read.
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

// cutLog reads log i to its end and splits it into pieces.
func (r *reading) cutLog(ctx context.Context, i int) error {
	file, err := r.logs[i].Open()
	if err != nil {
		return err
	}
	defer file.Close() // an error is ignored: the file was only read
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

// countingReader counts the bytes that are read. The counter may be read concurrently.
type countingReader struct {
	src   io.Reader
	total *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.total.Add(int64(n))
	return n, err
}
