package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate"
)

// ErrNothingToReplay: the logs hold no line that can be read as a request.
var ErrNothingToReplay = errors.New("replay: nothing to replay")

// Bounds on [Options].Memory, in bytes.
const (
	DefaultMemory = 256 << 20
	MinMemory     = 16 << 20
)

// MaxInFlight is the most for [Options].InFlight.
const MaxInFlight = 1 << 12

// Options are a replay's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Format is how the logs are written; the zero value finds out for each log.
	Format Format
	// Key says what a log line's key is; the zero value means the client's address.
	Key Key
	// Memory is the most memory for the requests while they are put in order, and for the statistics of keys, in bytes; at least
	// [MinMemory], 0 means [DefaultMemory]. What does not fit goes to a temporary file. The buffers of reading (some 4 MiB for
	// each processor, 10 at worst) and the stores come on top.
	Memory int64
	// TempDir is where the temporary file is made, if one is needed; empty means [os.TempDir].
	TempDir string
	// Decisions, if it is not nil, gets every decision as a line of JSON, in time order. It is written through a buffer of its own
	// and not closed. An error of its Write ends the replay.
	Decisions io.Writer
	// InFlight is how many decisions are asked of a store at once, each key's one after another and in order; 0 means 1, at most
	// [MaxInFlight]. A store behind a network answers many callers in the time that it takes to answer one. With more than 1 the
	// instants of different keys come to the store out of order, so it must be one that forgets a key by that key's own instants:
	// a memstore.Store goes by the latest of all, and is to be asked one after another.
	InFlight int
	// StoreStats, if it is not nil, is asked at the end what each store holds.
	StoreStats func(headgate.Store) StoreStats
	// Progress, if it is not nil, is called now and then, on the goroutine of [Run].
	Progress func(Progress)
}

// Progress says how far a replay is.
type Progress struct {
	Bytes    int64 // read from the logs, as they lie (a gzipped log's bytes are the compressed ones)
	Requests int64 // found in them so far
	Decided  int64 // of those; it begins when all is read
}

// StoreStats is what a store says of itself.
type StoreStats struct {
	Keys  int64 `json:"keys"`  // keys that it holds state of
	Bytes int64 `json:"bytes"` // memory of that state
	// Overflowed counts the decisions for keys that found no room of their own: those may deny what the limit would admit.
	Overflowed uint64 `json:"overflowed"`
}

// Run replays logs against policies, which are decided side by side, each over a store of its own from open; one is the common
// case. Every request is decided at the instant that its log line states, in time order, and in input order among equal
// instants.
//
// A line that cannot be read is counted and passed over. A log that breaks off is replayed up to there, and its [LogReport]
// says so. If no line at all can be read the error is [ErrNothingToReplay], and the report says what was seen. With any other
// error there is no report: an invalid policy, a full disk, a store that cannot answer, the end of ctx.
//
// It blocks for as long as the logs take to read, uses all processors, and leaves no file behind. A log whose Read blocks for
// ever is abandoned, with its goroutine, when ctx ends.
func Run(ctx context.Context, logs []Log, policies []headgate.Policy, open func() (headgate.Store, error), opts *Options) (*Report, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.complete(policies); err != nil {
		return nil, err
	}
	lanes, err := newLanes(policies, open, &o)
	if err != nil {
		return nil, err
	}
	report, err := replay(ctx, logs, lanes, &o)
	if closeErr := closeLanes(lanes); err == nil && closeErr != nil {
		return nil, closeErr
	}
	return report, err
}

// complete fills in the defaults and refuses what cannot work.
func (o *Options) complete(policies []headgate.Policy) error {
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Memory < MinMemory {
		return fmt.Errorf("replay: %d bytes of memory are too few; accepted are %d (16 MiB) and more", o.Memory, MinMemory)
	}
	if o.InFlight < 0 || o.InFlight > MaxInFlight {
		return fmt.Errorf("replay: %d decisions at once; accepted are 1 to %d", o.InFlight, MaxInFlight)
	}
	if len(policies) == 0 {
		return errors.New("replay: there is no policy to decide by")
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return nil
}

// batch is how many requests are decided before they are counted.
func (o *Options) batch() int {
	if o.InFlight > 1 {
		return batchSizeInFlight
	}
	return batchSize
}

func replay(ctx context.Context, logs []Log, lanes []*lane, o *Options) (*Report, error) {
	start := time.Now() // for the speed; it decides nothing
	g := &gathering{opts: o, spill: spill{dir: o.TempDir}}
	defer g.spill.close()
	if err := g.gather(ctx, logs); err != nil {
		return nil, err
	}
	if g.requests == 0 {
		return newReport(g, nil, o, start), nothingToReplay(g)
	}
	d, err := newDeciding(g, lanes)
	if err != nil {
		return nil, err
	}
	if err := d.decideAll(ctx); err != nil {
		return nil, err
	}
	return newReport(g, d, o, start), nil
}

func nothingToReplay(g *gathering) error {
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
