package replay

import (
	"context"
	"fmt"
	"strings"
)

// Request is one request of a log.
type Request struct {
	At   int64  // time in µs since the epoch
	Cost int64  // in units; 1 for a request of an access log
	Key  string // key of a JSON line; empty for a request of an access log

	// Fields of a request of an access log, which are “-” where the log has none; empty
	// for a JSON line. Path has no query.
	Address, User, Method, Path string
}

// IsJSON reports whether the request is from a JSON line, which has a key and no other
// fields.
func (q *Request) IsJSON() bool { return q.Method == "" }

// Each reads logs and calls visit with every request, in time order, and in input order
// if their times are equal. It decides nothing, and skips JSON lines with an operation,
// which it counts in skipped. Of opts it uses Format, Memory, TempDir and Progress. The
// request is valid only during the call of visit, whose first error ends the reading.
//
// For lines that cannot be parsed, truncated logs and the errors, see [Run]. The report
// contains what is known without decisions.
func Each(ctx context.Context, logs []Log, opts *Options, visit func(*Request) error) (report *Report, skipped int64, err error) {
	var o Options
	if opts != nil {
		o = Options{Format: opts.Format, Memory: opts.Memory, TempDir: opts.TempDir, Progress: opts.Progress}
	}
	o.setDefaults()
	if err := o.checkMemory(); err != nil {
		return nil, 0, err
	}
	o.Key = Key{whole: true}
	g := &gatherer{opts: &o, spill: spill{dir: o.TempDir}}
	defer g.spill.close()
	if err := g.gather(ctx, logs); err != nil {
		return nil, 0, err
	}
	report = newReport(g, nil, &o)
	if g.requests == 0 {
		return report, 0, nothingToReplay(g)
	}
	report.FirstUS, report.LastUS = g.first, g.last
	skipped, err = g.visitAll(ctx, visit)
	if err != nil {
		return nil, 0, err
	}
	return report, skipped, nil
}

// visitAll calls visit with every stored request that is not an operation.
func (g *gatherer) visitAll(ctx context.Context, visit func(*Request) error) (skipped int64, err error) {
	from, err := g.merger()
	if err != nil {
		return 0, err
	}
	batch, visited := make([]request, 0, batchSize), int64(0)
	for {
		if batch, err = from.next(batch[:0]); err != nil {
			return 0, err
		}
		if len(batch) == 0 {
			break
		}
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		for i := range batch {
			if batch[i].op != nil {
				skipped++
				continue
			}
			q := batch[i].whole()
			if err := visit(&q); err != nil {
				return 0, err
			}
		}
		visited += int64(len(batch))
		g.opts.Progress(Progress{Bytes: g.bytes, Requests: g.requests, Decided: visited})
	}
	if visited != g.requests {
		return 0, fmt.Errorf("replay: the temporary file was changed: only %d of %d requests could be read back", visited, g.requests)
	}
	return skipped, nil
}

// A key with all fields of a log line begins with wholeLine and contains the fields,
// separated by line feeds, which no field contains. The key of a JSON line begins with
// wholeKey.
const wholeLine, wholeKey = 'L', 'J'

// appendWhole appends all fields of a log line to dst.
func appendWhole(dst []byte, line *logLine) []byte {
	dst = append(dst, wholeLine)
	for f := range keyFields {
		dst = append(append(dst, line.field(f)...), '\n')
	}
	return dst
}

// whole returns the request with the fields of its key.
func (q *request) whole() Request {
	result := Request{At: q.at, Cost: q.cost}
	kind, text := q.key[0], q.key[1:]
	if kind == wholeKey {
		result.Key = text
		return result
	}
	// The fields are in the order of keyFields.
	for _, field := range []*string{&result.Address, &result.User, &result.Method, &result.Path} {
		*field, text, _ = strings.Cut(text, "\n")
	}
	return result
}

// Of returns the key of a request: that of a JSON line, or the fields of an access log
// that k lists.
func (k Key) Of(q *Request) string {
	if q.IsJSON() {
		return q.Key
	}
	line := logLine{host: []byte(q.Address), user: []byte(q.User), request: []byte(q.Method + " " + q.Path + " HTTP/")}
	return string(k.of(&line, nil))
}
