package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate"
)

// ErrNothingToReplay is matched by the error of [Run] if no line of the logs can be
// parsed as a request.
var ErrNothingToReplay = errors.New("replay: nothing to replay")

// The default and the minimum of [Options].Memory, in bytes.
const (
	DefaultMemory = 256 << 20
	MinMemory     = 16 << 20
)

// MaxInFlight is the maximum of [Options].InFlight.
const MaxInFlight = 1 << 12

// Options are the settings of a replay. A field that is zero has its default; nil
// options mean all defaults.
type Options struct {
	// Format is the format of all logs. The zero value detects the format of each log.
	Format Format
	// Key selects the fields of a log line that make the key. The zero value means the
	// client's address.
	Key Key
	// Memory is the maximum memory for sorting requests and for statistics of keys, in
	// bytes: at least [MinMemory]; 0 means [DefaultMemory]. Requests that do not fit
	// are written to a temporary file. Read buffers (about 4 MiB for each processor, at
	// most 10 MiB) and the stores need additional memory. So do the holds of the log:
	// about 1 KB for each hold before its deadline, also if it has ended, and at most a
	// sixteenth of Memory for each policy, for the ids of at least the last Memory/1024
	// holds that have expired. An operation on an earlier hold has the error
	// unknown_hold, not expired_hold.
	Memory int64
	// TempDir is the directory for the temporary file. Empty means [os.TempDir].
	TempDir string
	// Decisions receives every decision as a line of JSON, in time order. nil means
	// that no decisions are written. Writes are buffered. Run does not close the
	// writer. A write error ends the replay.
	Decisions io.Writer
	// InFlight is the maximum number of concurrent decisions in each store: 1 to
	// [MaxInFlight]; 0 means 1. Concurrent decisions hide the latency of a store on a
	// network. Requests of one key are always decided in order, but with a value above
	// 1 the times of different keys reach the store out of order. The store must
	// therefore expire each key by the times of that key only. A memstore.Store expires
	// keys by the latest time of all keys, so it requires 1.
	InFlight int
	// StoreStats returns the statistics of a store for the report. It is called for
	// each store at the end of the replay. nil or a zero result means that the report
	// has none.
	StoreStats func(headgate.Store) StoreStats
	// Scratch opens an empty store in memory for what the report measures in addition
	// to the policies; see [LimitReport].MostInPeriod and Curve. nil means that nothing
	// is measured. With several policies, it is called once for each limit of each
	// policy whose algorithm does not queue.
	Scratch func() (headgate.Store, error)
	// Curve adds a [Curve] of scaled limits to the report: of the recommended algorithm,
	// or else of the first policy. It requires Scratch. The requests are decided once
	// more, under up to twelve policies with a store from Scratch each.
	Curve bool
	// Progress is called repeatedly, on the goroutine of [Run]. nil means no calls.
	Progress func(Progress)
}

// Progress describes how much of a replay is done.
type Progress struct {
	Bytes    int64 // number of bytes read from the logs; of a gzipped log, compressed bytes
	Requests int64 // number of requests found until now
	// Decided is the number of requests decided until now; 0 until all logs are read.
	// With [Options].Curve every request is counted twice.
	Decided int64
}

// StoreStats are statistics of a store.
type StoreStats struct {
	Keys  int64 `json:"keys"`  // number of keys with state
	Bytes int64 `json:"bytes"` // memory of the keys with state, in bytes
	// Overflowed counts the decisions on keys that had to share an entry because the
	// store was full. Such a decision may deny a request that the limit would allow.
	Overflowed uint64 `json:"overflowed"`
}

// Run replays logs under one or more policies. It calls open once for each policy and
// gives every policy its own store. All policies decide the same requests. Every
// request is decided at the time in its log line. Requests are decided in time order,
// and in input order if their times are equal.
//
// A line that cannot be parsed is counted and skipped. A log that ends with a read
// error is replayed up to the error, and its [LogReport] contains the error. If no line
// at all can be parsed, Run returns [ErrNothingToReplay] and a report that describes
// the lines. With any other error, such as an invalid policy, a full disk, an
// unavailable store or the end of ctx, Run returns no report.
//
// Run blocks until all logs are read and all requests decided. It uses all processors
// and deletes its temporary file. If a log blocks in Read when ctx ends, Run returns
// and the blocked goroutine remains until Read returns.
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

// complete sets the defaults and returns an error if an option is invalid or policies
// is empty.
func (o *Options) complete(policies []headgate.Policy) error {
	o.setDefaults()
	if err := o.checkMemory(); err != nil {
		return err
	}
	if o.InFlight < 0 || o.InFlight > MaxInFlight {
		return fmt.Errorf("replay: %d concurrent decisions; must be 1 to %d", o.InFlight, MaxInFlight)
	}
	if len(policies) == 0 {
		return errors.New("replay: no policy is given; at least 1 is required")
	}
	if o.Curve && o.Scratch == nil {
		return errors.New("replay: a curve requires Scratch, which is nil")
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
}

func (o *Options) checkMemory() error {
	if o.Memory < MinMemory {
		return fmt.Errorf("replay: memory is %d bytes; must be at least %d (16 MiB)", o.Memory, MinMemory)
	}
	return nil
}

// statsOf returns the statistics of a store, or zero if they are unknown.
func (o *Options) statsOf(store headgate.Store) (stats StoreStats) {
	if o.StoreStats != nil {
		stats = o.StoreStats(store)
	}
	return stats
}

// batch returns how many requests are decided before the decisions are counted.
func (o *Options) batch() int {
	if o.InFlight > 1 {
		return batchSizeInFlight
	}
	return batchSize
}

func replay(ctx context.Context, logs []Log, replays []*policyReplay, o *Options) (*Report, error) {
	start := time.Now() // used only for the speed in the report
	g := &gatherer{opts: o, spill: spill{dir: o.TempDir}}
	defer g.spill.close()
	if err := g.gather(ctx, logs); err != nil {
		return nil, err
	}
	if g.requests == 0 {
		report := newReport(g, nil, o)
		report.addSpeed(start)
		return report, nothingToReplay(g)
	}
	d, err := newDecider(g, replays, o)
	if err != nil {
		return nil, err
	}
	if err := d.decideAll(ctx); err != nil {
		return nil, err
	}
	report := newReport(g, d, o)
	if o.Curve {
		best := report.recommended()
		if err := report.addCurve(ctx, g, replays[best].policy); err != nil {
			return nil, err
		}
	}
	report.addSpeed(start)
	return report, nil
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
