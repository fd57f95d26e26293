package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate"
)

// ErrNothingToReplay: no line of the logs can be parsed as a request.
var ErrNothingToReplay = errors.New("replay: nothing to replay")

// Bounds on [Options].Memory, in bytes.
const (
	DefaultMemory = 256 << 20
	MinMemory     = 16 << 20
)

// MaxInFlight is the maximum of [Options].InFlight.
const MaxInFlight = 1 << 12

// Options are the settings of a replay. A field that is zero has its default;
// nil means all defaults.
type Options struct {
	// Format is the format of the logs; the zero value detects it for each log.
	Format Format
	// Key is the key of a log line; the zero value means the client's address.
	Key Key
	// Memory is the maximum memory for sorting requests and for statistics of keys, in
	// bytes: at least [MinMemory], 0 means [DefaultMemory]. The rest is written to a
	// temporary file. Read buffers (about 4 MiB for each processor, at most 10 MiB) and
	// the stores need additional memory.
	Memory int64
	// TempDir is the directory of the temporary file; empty means [os.TempDir].
	TempDir string
	// Decisions receives every decision as a line of JSON, in time order, if it is not
	// nil. Writes are buffered. It is not closed. A write error ends the replay.
	Decisions io.Writer
	// InFlight is the maximum number of concurrent decisions of a store; 0 means 1, at
	// most [MaxInFlight]. Requests of one key stay in order. A store on a network
	// decides many concurrent requests in the time of one. With more than 1, the times
	// of different keys reach the store out of order. The store must therefore expire
	// each key by that key's own times. A memstore.Store expires keys by the latest
	// time of all and needs 1.
	InFlight int
	// StoreStats returns what each store holds at the end, if it is not nil.
	StoreStats func(headgate.Store) StoreStats
	// Progress is called from time to time on the goroutine of [Run], if it is not nil.
	Progress func(Progress)
}

// Progress describes how far a replay is.
type Progress struct {
	Bytes    int64 // read from the logs; compressed bytes of a gzipped log
	Requests int64 // found so far
	Decided  int64 // decided so far; starts after all logs were read
}

// StoreStats are statistics of a store.
type StoreStats struct {
	Keys  int64 `json:"keys"`  // keys with state
	Bytes int64 `json:"bytes"` // memory of that state
	// Overflowed counts the decisions for keys without their own entry, which shared
	// one. Such decisions may deny what the limit would allow.
	Overflowed uint64 `json:"overflowed"`
}

// Run replays logs against policies, each with its own store from open. It compares
// several policies on the same requests; one policy is the usual case. Every request is
// decided at the time in its log line, in time order, and in input order among equal
// times.
//
// A line that cannot be parsed is counted and skipped. A log that ends with an error is
// replayed up to there, and its [LogReport] contains the error. If no line at all can
// be parsed, the error is [ErrNothingToReplay], and the report describes the lines.
// With any other error there is no report: an invalid policy, a full disk, an
// unavailable store, the end of ctx.
//
// Run blocks until all logs are read and decided. It uses all processors and leaves no
// file. If a log blocks in Read when ctx ends, Run returns and leaves the blocked
// goroutine behind.
func Run(ctx context.Context, logs []Log, policies []headgate.Policy, open func() (headgate.Store, error), opts *Options) (*Report, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.complete(policies); err != nil {
		return nil, err
	}
	replays, err := newPolicyReplays(policies, open, &o)
	if err != nil {
		return nil, err
	}
	report, err := replay(ctx, logs, replays, &o)
	if closeErr := closeAll(replays); err == nil && closeErr != nil {
		return nil, closeErr
	}
	return report, err
}

// complete sets defaults and validates the options.
func (o *Options) complete(policies []headgate.Policy) error {
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Memory < MinMemory {
		return fmt.Errorf("replay: memory is %d bytes; must be at least %d (16 MiB)", o.Memory, MinMemory)
	}
	if o.InFlight < 0 || o.InFlight > MaxInFlight {
		return fmt.Errorf("replay: %d concurrent decisions; must be 1 to %d", o.InFlight, MaxInFlight)
	}
	if len(policies) == 0 {
		return errors.New("replay: there is no policy to decide by")
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return nil
}

// batch returns how many requests are decided before they are counted.
func (o *Options) batch() int {
	if o.InFlight > 1 {
		return batchSizeInFlight
	}
	return batchSize
}

func replay(ctx context.Context, logs []Log, replays []*policyReplay, o *Options) (*Report, error) {
	start := time.Now() // for the speed in the report only
	g := &gatherer{opts: o, spill: spill{dir: o.TempDir}}
	defer g.spill.close()
	if err := g.gather(ctx, logs); err != nil {
		return nil, err
	}
	if g.requests == 0 {
		return newReport(g, nil, o, start), nothingToReplay(g)
	}
	d, err := newDecider(g, replays)
	if err != nil {
		return nil, err
	}
	if err := d.decideAll(ctx); err != nil {
		return nil, err
	}
	return newReport(g, d, o, start), nil
}

func nothingToReplay(g *gatherer) error {
	switch {
	case g.unreadable > 0:
		as := ""
		if g.opts.Format != "" {
			as = " as " + string(g.opts.Format)
		}
		return fmt.Errorf("%w: none of %d lines can be read%s", ErrNothingToReplay, g.lines, as)
	case len(g.logs) == 1 && g.logs[0].Error == "":
		return fmt.Errorf("%w: %s is empty", ErrNothingToReplay, g.logs[0].Name)
	default:
		return fmt.Errorf("%w: the logs are empty", ErrNothingToReplay)
	}
}
